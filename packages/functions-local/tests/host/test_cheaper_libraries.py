"""What the host replaces in the libraries gives the same results."""

from __future__ import annotations

import pytest
from azure.functions._utils import try_parse_datetime_with_formats

from functions_local.cheaper_libraries import parse_where_zones_agree

_FORMATS = [
    ["%Y-%m-%dT%H:%M:%S+00:00", "%Y-%m-%dT%H:%M:%S.%f-00:00", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"],
    ["%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S", "%m/%d/%YT%H:%M:%S"],
    ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S"],
]


@pytest.mark.parametrize("formats", _FORMATS)
@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-21T10:00:00.123", "2026-11-21T10:00:00", "11/21/2026T10:00:00", "2026-11-21"),
        *("2026-11-21T10:00:00Z", "2026-11-21T10:00:00.5Z", "2026-11-21T10:00:00+00:00"),
        *("2026-11-21T10:00:00.5-00:00", "2026-11-21T10:00:00+01:00", "soon", ""),
    ],
)
def test_times_are_parsed_as_before(text: str, formats: list[str]) -> None:
    """The same time by the same format, or an error."""
    time, found, error = parse_where_zones_agree(try_parse_datetime_with_formats)(text, formats)
    expected, expected_format, expected_error = try_parse_datetime_with_formats(text, formats)
    assert (time, found, type(error)) == (expected, expected_format, type(expected_error))
