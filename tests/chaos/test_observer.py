"""What is observed while tasks run is kept, also when their rows do not show it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.chaos.evidence import observer
from tests.chaos.evidence.dispatches import Dispatch, dispatches
from tests.chaos.evidence.observer import Observer
from tests.chaos.evidence.rows import TaskRows
from tests.chaos.evidence.tables import Tables
from tests.chaos.sample_evidence import ORDER, after, rows, step, task

_FIRST = rows(task("Processing", 1), step("Running", 1, started=1))
_AGAIN = rows(task("Processing", 1), step("Running", 1, started=6))
_OF_NO_EPOCH = rows(task("Processing", 2), step("Running", 1, started=1))


class _Looks(Tables):
    """One task, of which each look sees other rows; after the last look the observation ends."""

    def __init__(self, looks: Sequence[TaskRows]) -> None:
        self._looks = iter(looks)

    async def shards(self) -> list[str]:
        return ["00"]

    async def shard(self, shard: str) -> dict[str, TaskRows]:
        for look in self._looks:
            return {ORDER: look}
        raise asyncio.CancelledError(shard)


async def test_dispatch_that_the_next_one_replaces_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request waited for too long, so that the step was dispatched again in the same epoch."""
    monkeypatch.setattr(observer, "_LOOK_EVERY", 0.0)
    watching = Observer(_Looks([_FIRST, _FIRST, _AGAIN]))
    with pytest.raises(asyncio.CancelledError):
        await watching.watch()
    first = Dispatch("payment", "do", after(1), after(5))
    again = Dispatch("payment", "do", after(6), after(10))
    assert watching.observations.dispatched == {ORDER: {first, again}}


def test_step_of_an_epoch_that_has_ended_is_not_dispatched_in_this_one() -> None:
    """It is still to be dispatched again."""
    assert list(dispatches(_OF_NO_EPOCH)) == []
