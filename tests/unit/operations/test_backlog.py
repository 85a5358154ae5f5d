"""How long messages have waited, as the log is told."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest

from functions.operations.alerts.queues import log_ages
from functions.pattern.ports import Pile, QueueDepth
from tests.fakes.clock import START
from tests.fakes.ports import fake_ports

_EMPTY = Pile(0, more=False, oldest_at=None, scheduled=3)


class Looked:
    """Queues that look as the test says."""

    def __init__(self, *depths: QueueDepth) -> None:
        self._depths = depths

    async def depths(self) -> Sequence[QueueDepth]:
        """Look at every queue."""
        return self._depths


async def _told(caplog: pytest.LogCaptureFixture, *depths: QueueDepth) -> list[str]:
    caplog.set_level(logging.INFO)
    await log_ages(fake_ports(queues=Looked(*depths)))
    return caplog.messages


async def test_each_queue_with_messages_is_told_with_the_age_of_the_oldest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In seconds, on a line of its own."""
    minute = Pile(1, more=False, oldest_at=START - timedelta(minutes=1))
    hour = Pile(100, more=True, oldest_at=START - timedelta(hours=1))
    lines = await _told(
        caplog, QueueDepth("submissions", minute, _EMPTY), QueueDepth("agent-replies", hour, None)
    )
    assert lines == [
        'messages wait {"queue": "submissions", "oldest_seconds": 60}',
        'messages wait {"queue": "agent-replies", "oldest_seconds": 3600}',
    ]


async def test_queue_in_which_nothing_waits_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is one that could not be looked at, or whose messages all wait for a time of their own."""
    dead = Pile(1, more=False, oldest_at=START)
    assert (
        await _told(caplog, QueueDepth("submissions", _EMPTY, dead), QueueDepth("agent-replies", None, None))
        == []
    )


async def test_message_from_the_future_has_not_waited(caplog: pytest.LogCaptureFixture) -> None:
    """The service's clock may be ahead."""
    ahead = Pile(1, more=False, oldest_at=START + timedelta(seconds=2))
    assert await _told(caplog, QueueDepth("submissions", ahead, _EMPTY)) == [
        'messages wait {"queue": "submissions", "oldest_seconds": 0}'
    ]
