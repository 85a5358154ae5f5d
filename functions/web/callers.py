"""Identify callers as `AUTH_MODE` says, and check their roles."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Literal
from uuid import UUID

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import Scope

from functions.web.problems import ProblemError

PRINCIPAL_HEADER = "X-MS-CLIENT-PRINCIPAL"

#: The claim types of an identity's object id in Entra ID: the platform's name for it, and the tokens'.
_OBJECT_ID = frozenset({"http://schemas.microsoft.com/identity/claims/objectidentifier", "oid"})


class Role(StrEnum):
    """The app roles of `infra/app-roles.json`. Steps may name other roles for their events."""

    #: Submits orders, and sees those that it submitted.
    SUBMITTER = "Submitter"
    #: Sees every task, and cannot act.
    READER = "Reader"
    #: Sees every task, and acts on tasks and rejected messages.
    OPERATOR = "Operator"


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller, by the `name` that is recorded; `has_every_role` includes those that only steps name."""

    name: str
    roles: frozenset[str]
    has_every_role: bool = False

    def may_see(self, submitter: str) -> bool:
        """Return whether this caller may see an order that `submitter` sent."""
        return self.has(Role.READER, Role.OPERATOR) or submitter == self.name

    def has(self, *roles: str) -> bool:
        """Return whether this caller has one of `roles`."""
        return self.has_every_role or not self.roles.isdisjoint(roles)

    def check(self, *roles: str) -> None:
        """Require one of `roles`. Raises `ProblemError` 403, which names them and the setting."""
        if not self.has(*roles):
            named = " or ".join(sorted(roles))
            text = f"The caller lacks the role {named}. Assign the app role in Entra ID (AUTH_MODE=easyauth)."
            raise ProblemError(HTTPStatus.FORBIDDEN, text)

    def bears(self, role: str, submitter: str) -> bool:
        """Return whether this caller has a role for an order of `submitter`; a submitter for its own only."""
        return self.has(role) and (role != Role.SUBMITTER or submitter == self.name)


Identify = Callable[[Scope, Headers], Caller]

#: The HTTP functions that identify callers, by the name of the function.
Interface = Literal["api", "operations"]

#: The host checks function keys and passes on no name: all callers of a function are one.
_BY_KEY: dict[Interface, Caller] = {
    "api": Caller("function-key", frozenset({Role.SUBMITTER})),
    "operations": Caller("operator", frozenset({Role.OPERATOR})),
}


def identify_by(auth_mode: Literal["keys", "easyauth", "local"], interface: Interface) -> Identify:
    """Return how the callers of an interface are identified; with `local`, they have every role."""
    if auth_mode == "easyauth":
        return signed_in
    caller = _BY_KEY[interface]
    if auth_mode == "local":
        caller = Caller(caller.name, frozenset(Role), has_every_role=True)
    return identify_as(caller)


def identify_as(caller: Caller) -> Identify:
    """Identify the sender of every request as `caller`."""
    return lambda _scope, _headers: caller


class _Claim(BaseModel):
    typ: str
    val: str


class _Principal(BaseModel):
    """What the platform writes into the header; `role_typ` is the type of the claims that are roles."""

    claims: list[_Claim]
    role_typ: str | None = None

    def values(self, types: frozenset[str]) -> set[str]:
        return {claim.val for claim in self.claims if claim.typ in types}


def signed_in(_scope: Scope, headers: Headers) -> Caller:
    """Read the caller from the platform's sign-in. Raises `ProblemError` 401.

    The header is base64 of a JSON object with claims. The platform removes it from incoming
    requests and writes its own, but only while sign-in is on: without it, anybody could write any claim
    (https://learn.microsoft.com/azure/app-service/configure-authentication-user-identities).
    """
    sent = headers.getlist(PRINCIPAL_HEADER)
    try:
        [header] = sent
        principal = _Principal.model_validate_json(b64decode(header, validate=True))
        [object_id] = (UUID(text) for text in principal.values(_OBJECT_ID))
    except ValueError:
        challenge = {"WWW-Authenticate": "Bearer"}
        unreadable = f"The header {PRINCIPAL_HEADER} is not JSON in base64 with one object id (UUID)."
        text = unreadable if sent else "Sign in first."
        raise ProblemError(HTTPStatus.UNAUTHORIZED, text, headers=challenge) from None
    named = principal.values(frozenset({"roles", principal.role_typ or "roles"}))
    return Caller(str(object_id), frozenset(named))
