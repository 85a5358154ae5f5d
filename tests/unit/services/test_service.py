"""The definition of a sample service."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from functions.pattern.errors import DefinitionError
from functions.services.service import booking_service


@pytest.mark.parametrize("name", ["loyalty-points", "tasks", "rejected", "faults", "Points", "p2", ""])
def test_name_that_its_table_cannot_have_is_refused(name: str) -> None:
    """The error names the service and the rule."""
    with pytest.raises(DefinitionError, match=f"sample service '{name}': its name must be"):
        booking_service(name, BaseModel)


def test_table_is_named_after_the_service() -> None:
    """So that two services never share one."""
    assert booking_service("parcels", BaseModel).table == "Parcels"
