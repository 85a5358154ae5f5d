"""The identification of callers by `AUTH_MODE`."""

from __future__ import annotations

from base64 import b64decode
from http import HTTPStatus
from typing import Literal
from uuid import UUID

from pydantic import BaseModel
from starlette.datastructures import Headers

from functions.http.access import Caller, Identify, Role, identify_as
from functions.http.problems import ProblemError

PRINCIPAL_HEADER = "X-MS-CLIENT-PRINCIPAL"
#: The claim types of the object id of an identity in Entra ID: of the platform, and of tokens.
_OBJECT_ID = frozenset({"http://schemas.microsoft.com/identity/claims/objectidentifier", "oid"})
#: The HTTP functions that identify callers, by the name of the function.
type Interface = Literal["api", "operations"]
#: The host checks function keys and passes no name on, so all callers of a function have one name.
_BY_KEY: dict[Interface, Caller] = {
    "api": Caller("function-key", frozenset({Role.SUBMITTER})),
    "operations": Caller("operator", frozenset({Role.OPERATOR})),
}


def identify_by(auth_mode: Literal["keys", "easyauth", "local"], interface: Interface) -> Identify:
    """Return the identification of the callers of an interface. With `local`, they have every role."""
    if auth_mode == "easyauth":
        return signed_in
    caller = _BY_KEY[interface]
    if auth_mode == "local":
        caller = Caller(caller.name, frozenset(Role), has_every_role=True)
    return identify_as(caller)


class _Claim(BaseModel):
    typ: str
    val: str


class _Principal(BaseModel):
    """The content of the header; `role_typ` is the type of the claims that are roles."""

    claims: list[_Claim]
    role_typ: str | None = None

    def values(self, types: frozenset[str]) -> set[str]:
        return {claim.val for claim in self.claims if claim.typ in types}


def signed_in(headers: Headers) -> Caller:
    """Read the caller from the platform's sign-in. Raises `ProblemError` 401.

    The header is base64 of a JSON object with claims. While sign-in is on, the platform
    replaces the header of a request by its own. Without sign-in, any caller could write any claim
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
