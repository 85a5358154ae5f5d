"""A reply is judged by what this process remembers of the task, which may be outdated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import StepState, Way
from tests.fakes.interventions import undo_request
from tests.fakes.tasks import SECOND, claimed, failed, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.test_refused_replies import NAN, RIGHT
from tests.unit.scheduler.test_replies import TOKEN, Bench

OF = workflow(step("pick", via=Way.QUEUE, undo=True), name="undone")


@pytest.mark.parametrize("body", [NAN, json.dumps(RIGHT | {"no_result": "the answer was cut"})], ids=["NaN", "no result"])
async def test_undo_that_another_process_began_is_done(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs what an undo gives: it is done, whatever this process remembers of the task."""
    bench = Bench(OF)
    claimed_here = told(told(bench.store.record(TASK), failed("pick", token=TOKEN)), undo_request(), claimed(SECOND))
    bench.store.put(told(claimed_here, started("pick", SECOND, token="another-token-of-it")))

    async def remembered(_: TaskId) -> TaskRecord:
        return claimed_here

    monkeypatch.setattr(bench.store, "known", remembered)
    reply: Any = body.replace(TOKEN, "another-token-of-it").replace('"epoch": 1', '"epoch": 2')
    await bench.taker.take("m-1", reply.encode(), bench.schedulers)
    assert bench.state is StepState.UNDONE
