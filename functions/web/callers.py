"""Who sends a request, by its headers, as `AUTH_MODE` says."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from uuid import UUID

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import Scope

from functions.web.problems import ProblemError

PRINCIPAL_HEADER = "X-MS-CLIENT-PRINCIPAL"

#: The claim types of an identity's object id in Entra ID: the platform's name for it, and the tokens'.
_OBJECT_ID = frozenset({"http://schemas.microsoft.com/identity/claims/objectidentifier", "oid"})
_ROLES = "roles"


class Role(StrEnum):
    """What a caller may do: app roles of `infra/app-roles.json`. Steps may name others for their events."""

    #: Submits orders, and sees those that it submitted.
    SUBMITTER = "Submitter"
    #: Sees every task, and resubmits or undoes those in `Error`.
    OPERATOR = "Operator"


#: A key so named is a role's, whatever workflows are deployed, and not a person's.
ROLE_KEY = "role-"


def key_of_role(role: str) -> str:
    """Name the key of a role: that of `Approver` is `role-approver`."""
    return ROLE_KEY + role.lower().replace(".", "-")


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller; `name` is what its orders and actions are recorded under.

    `roles` are names of roles, or of roles' keys.
    """

    name: str
    roles: frozenset[str]

    def may_see(self, submitter: str) -> bool:
        """Tell whether this caller may see an order that `submitter` sent."""
        return Role.OPERATOR in self.roles or submitter == self.name

    def has(self, role: str) -> bool:
        """Tell whether this caller has a role, or the role's key."""
        return role in self.roles or key_of_role(role) in self.roles

    def bears(self, role: str, submitter: str) -> bool:
        """Tell whether this caller has a role for an order that `submitter` sent: a submitter for its own."""
        return self.has(role) and (role != Role.SUBMITTER or submitter == self.name)


#: Finds out who sent a request. Raises `ProblemError` 401 when it does not say.
Identify = Callable[[Scope, Headers], Caller]


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
    try:
        [header] = headers.getlist(PRINCIPAL_HEADER)
        principal = _Principal.model_validate_json(b64decode(header, validate=True))
        [object_id] = (UUID(text) for text in principal.values(_OBJECT_ID))
    except ValueError:
        challenge = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "Sign in first.", headers=challenge) from None
    named = principal.values(frozenset({_ROLES, principal.role_typ or _ROLES}))
    return Caller(str(object_id), frozenset(named))
