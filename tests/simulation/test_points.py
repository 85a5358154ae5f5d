"""One fault at each request of the sample workflows: a crash before it or after it, or its answer is lost."""

from __future__ import annotations

import pytest

from tests.simulation.points.paths import every_path
from tests.simulation.seeds import violated

pytestmark = [pytest.mark.process, pytest.mark.timeout(1_200)]


@pytest.mark.parametrize("path", [str(each) for each in every_path()])
def test_fault_at_any_request_changes_no_end(path: str) -> None:
    """The task ends as it would have ended, and no invariant is violated."""
    assert violated("--path", path) == ""
