"""Guards of HTTP applications, and callers as identified by the platform's sign-in."""

from __future__ import annotations

import json
from base64 import b64encode

from functions.http.access import Caller, Caps, Guard, Identify, Role, identify_as
from functions.http.identification import PRINCIPAL_HEADER, signed_in

#: Limits that no test reaches accidentally.
WIDE = Caps(per_minute=1_000_000, in_flight=1_000)


def one_caller(name: str) -> Identify:
    """Identify the sender of every request by one name, with the roles of the application."""
    return identify_as(Caller(name, frozenset(Role)))


#: Treats every request as from the one caller that owns the fakes' tasks.
KEYS = Guard(one_caller("tester"), WIDE)
#: Trusts the platform's sign-in.
SIGN_IN = Guard(signed_in, WIDE)

ANNA = "11111111-1111-4111-8111-111111111111"
BERT = "22222222-2222-4222-8222-222222222222"

_OBJECT_ID = "http://schemas.microsoft.com/identity/claims/objectidentifier"


def principal(object_id: str, *roles: str) -> dict[str, str]:
    """Return the header in which the platform identifies the signed-in caller."""
    claims = [{"typ": _OBJECT_ID, "val": object_id}, *({"typ": "roles", "val": role} for role in roles)]
    return encoded({"auth_typ": "aad", "claims": claims, "name_typ": "name", "role_typ": "roles"})


def encoded(content: object) -> dict[str, str]:
    """Return that header with any content, encoded as the platform does."""
    return {PRINCIPAL_HEADER: b64encode(json.dumps(content).encode()).decode()}


def submitter(object_id: str) -> dict[str, str]:
    """Return the header of a signed-in submitter."""
    return principal(object_id, Role.SUBMITTER)


def reader(object_id: str) -> dict[str, str]:
    """Return the header of a signed-in reader."""
    return principal(object_id, Role.READER)


def operator(object_id: str) -> dict[str, str]:
    """Return the header of a signed-in operator."""
    return principal(object_id, Role.OPERATOR)
