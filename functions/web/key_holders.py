"""Who sends a request, by the function key that it shows: the Functions host has checked it before."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import Scope

from functions.web.callers import ROLE_KEY, Caller, Identify, Role, key_of_role
from functions.web.named_keys import API, OPERATIONS, NamedKey, digest_of
from functions.web.problems import ProblemError

KEY_HEADER = "x-functions-key"
_KEY_QUERY = "code"

_NO_KEY = f"Show a function key in the header {KEY_HEADER}."
#: Such as one of another function: the host may take it, and it has no setting here.
_NO_NAMED_KEY = "This key is none of those that are named for this function: show one of them."

#: What everybody is called whose key has no name.
_UNNAMED = {API: "function-key", OPERATIONS: "operator"}


def key_holder(name: str) -> Identify:
    """Identify every caller by one name."""
    caller = Caller(name, frozenset(Role))
    return lambda _scope, _headers: caller


def key_holders(function: str, keys: Iterable[NamedKey]) -> Identify:
    """Identify the callers of a function by its named keys.

    Another key of `operations` is an operator's without a name: it does what each key there does. Another
    key of `api` would do more than a named one: it is refused as soon as one is named.
    """
    named = [(key.digest, _caller(key)) for key in keys if key.function == function]
    unnamed = Caller(_UNNAMED[function], frozenset(Role))
    if not named:
        return key_holder(unnamed.name)

    def identify(scope: Scope, headers: Headers) -> Caller:
        key = _key_shown(scope, headers)
        shown = digest_of(key)
        holder = unnamed if function == OPERATIONS else None
        for digest, caller in named:  # all of them: the time tells nothing
            if hmac.compare_digest(shown, digest):
                holder = caller
        if holder is None:
            raise ProblemError(HTTPStatus.UNAUTHORIZED, _NO_NAMED_KEY if key else _NO_KEY)
        return holder

    return identify


def _caller(key: NamedKey) -> Caller:
    """Give a key what its name says: a role, or a person's; one of `operations` is an operator's besides."""
    roles: set[str] = {Role.OPERATOR} if key.function == OPERATIONS else set()
    if key.name.startswith(ROLE_KEY):
        roles |= {key.name, *(role for role in Role if key_of_role(role) == key.name)}
    return Caller(key.name, frozenset(roles or {Role.SUBMITTER}))


def _key_shown(scope: Scope, headers: Headers) -> str:
    """Find the key that the host has checked: the header's, or else the query's; nothing where there is none.

    Of several, the host takes the first, and hands on all as one text: these are refused, so that nobody is
    taken for somebody else. Raises `ProblemError` 401.
    """
    shown = headers.getlist(KEY_HEADER)
    if not shown:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in query if name.lower() == _KEY_QUERY]
    if len(shown) > 1 or any("," in each for each in shown):
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "Show one function key, once.")
    return shown[0].strip() if shown else ""
