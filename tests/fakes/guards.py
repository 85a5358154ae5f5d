"""Guards of HTTP applications, and callers as the platform's sign-in describes them."""

from __future__ import annotations

import json
from base64 import b64encode

from functions.web.access import Guard
from functions.web.callers import PRINCIPAL_HEADER, Role, key_holder, signed_in
from functions.web.caps import Caps
from tests.fakes.clock import FakeClock

#: Caps that no test reaches by chance.
WIDE = Caps(per_minute=1_000_000, in_flight=1_000)

#: Takes everybody for the same caller, whom the fakes' tasks belong to.
KEYS = Guard(key_holder("tester"), WIDE, FakeClock())
#: Believes what the platform's sign-in says.
SIGN_IN = Guard(signed_in, WIDE, FakeClock())

ANNA = "11111111-1111-4111-8111-111111111111"
BERT = "22222222-2222-4222-8222-222222222222"

_OBJECT_ID = "http://schemas.microsoft.com/identity/claims/objectidentifier"


def principal(object_id: str, *roles: str) -> dict[str, str]:
    """Give the header by which the platform names who has signed in."""
    claims = [{"typ": _OBJECT_ID, "val": object_id}, *({"typ": "roles", "val": role} for role in roles)]
    return encoded({"auth_typ": "aad", "claims": claims, "name_typ": "name", "role_typ": "roles"})


def encoded(content: object) -> dict[str, str]:
    """Write anything into that header the way the platform does."""
    return {PRINCIPAL_HEADER: b64encode(json.dumps(content).encode()).decode()}


def submitter(object_id: str) -> dict[str, str]:
    """Sign in somebody who submits orders."""
    return principal(object_id, Role.SUBMITTER)


def operator(object_id: str) -> dict[str, str]:
    """Sign in an operator."""
    return principal(object_id, Role.OPERATOR)
