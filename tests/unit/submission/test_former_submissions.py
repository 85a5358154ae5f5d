"""Submissions that applications of before have sent: during a deployment, they are taken like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.pattern.states import ProcessState
from tests.fakes.workflows import TASK, submission
from tests.unit.submission.test_intake import Bench


def _of_former_host(**changes: Any) -> bytes:
    """Write a message as it was written: `put_back` is in each."""
    body = submission().model_dump(mode="json", exclude_none=True)
    return json.dumps(body | {"put_back": 0} | changes).encode()


@pytest.mark.parametrize("put_back", [0, 3])
async def test_submission_of_the_former_host_becomes_a_task(put_back: int) -> None:
    """202 was answered for it."""
    bench = Bench()
    await bench.take(_of_former_host(put_back=put_back), "task-1.d")
    assert bench.rejections.all == []
    assert bench.store.record(TASK).task.process_state is ProcessState.PENDING
