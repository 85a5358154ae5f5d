"""The schemas and the code say the same, tried with values of all sorts."""

from __future__ import annotations

import pytest

from tests.contract.test_agent_schemas import BASES, _is_read, _is_valid


@pytest.mark.parametrize(
    "complete_by",
    ["1700000000", "2036-11-21 12:01:00Z", "2036-11-21T12:01Z", "2036-11-21T12:01:00+0100", "2036-11-21T12:01:00,5Z"],
)
def test_time_that_the_schema_refuses_is_refused(complete_by: str) -> None:
    """A request of another format than the schema's is taken by the application's own Agent."""
    message = BASES["request"] | {"complete_by": complete_by}
    assert _is_read("request", message) == _is_valid("request", message)
