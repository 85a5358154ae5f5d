"""One fault at each request of the sample workflows: a crash before it or after it, or its answer is lost."""

from __future__ import annotations

import pytest

from tests.simulation.points.paths import every_path
from tests.simulation.seeds import violated

#: All paths of the workflow with parallel steps, and the shortest one with an Agent behind a queue.
_BY_DAY = ("delivery", "orders, happy")
_PATHS = [
    pytest.param(str(each), marks=[] if str(each).startswith(_BY_DAY) else pytest.mark.night)
    for each in every_path()
]

pytestmark = [pytest.mark.process, pytest.mark.timeout(1_200)]


@pytest.mark.parametrize("path", _PATHS)
def test_fault_at_any_request_changes_no_end(path: str) -> None:
    """The task ends as it would have ended, and no invariant is violated."""
    assert violated("--path", path, "--processes", "2") == ""
