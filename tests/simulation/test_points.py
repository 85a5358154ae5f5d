"""One fault at each request of the sample workflows: a crash before it or after it, or its answer is lost."""

from __future__ import annotations

import pytest

from tests.simulation.points.paths import every_path
from tests.simulation.seeds import violated

#: More than half of all requests are on these paths, which take minutes of simulated time.
_LONG = {"orders, recovered", "orders, compensated"}
_PATHS = [
    pytest.param(str(each), marks=pytest.mark.night if str(each) in _LONG else []) for each in every_path()
]

pytestmark = [pytest.mark.process, pytest.mark.timeout(1_200)]


@pytest.mark.parametrize("path", _PATHS)
def test_fault_at_any_request_changes_no_end(path: str) -> None:
    """The task ends as it would have ended, and no invariant is violated."""
    assert violated("--path", path) == ""
