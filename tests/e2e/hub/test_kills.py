"""Events, `kill -9` of host and broker while they are read, and a replay: each order is one task.

`make stream` runs it with 100,000 events and prints its progress.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.e2e.hub.stream import stream

_EVENTS = int(os.environ.get("STREAM_EVENTS", "2000"))

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900 + _EVENTS / 5)]


# The clients do not close sockets whose connection was cut.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_killed_parts_and_a_replay_admit_each_order_once(tmp_path: Path) -> None:
    """No order is lost, doubled or rejected, all are `Processed`, and the replay changes no row."""
    tasks = [f"event-{number}" for number in range(_EVENTS)]
    streamed = await stream(tmp_path, tasks, lambda line: print(line, flush=True))  # noqa: T201 - progress
    gc.collect()  # such sockets, while their warnings are expected
    assert streamed.first.faults(tasks) == []
    assert (streamed.replayed.rows, streamed.replayed.digest) == (streamed.first.rows, streamed.first.digest)
    assert streamed.kills == 4
