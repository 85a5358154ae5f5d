"""2,000 events, `kill -9` of host and broker under way, and a replay of all: each order is one task.

`make stream` is the same with 100,000.
"""

from __future__ import annotations

import gc

import pytest
from rich.console import Console

from local.bench.progress import Phases
from local.bench.stream.run import StreamRun

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]

_EVENTS = 2_000


# The clients do not close sockets whose connection was cut.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_killed_parts_and_a_replay_admit_each_order_once() -> None:
    """No order is lost, doubled or set aside, all are `Processed`, and the replay changes no row."""
    measured = await StreamRun(_EVENTS, 0, Phases(Console(quiet=True))).measure()
    gc.collect()  # such sockets, while their warnings are expected
    assert measured.recorded.faults == []
    assert measured.recorded.kills == 4
    assert len(measured.recorded.evidence.orders) == _EVENTS
