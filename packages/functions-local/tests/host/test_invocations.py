"""What is true of every invocation, for any trigger."""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import timedelta
from functools import partial

import pytest

from functions_local.app import ActivityTrigger, OrchestrationTrigger
from functions_local.invocations import Counters, Invocations
from functions_local.protos import TypedData
from functions_local.worker import FunctionFailed, Succeeded
from tests.host.doubles import FakeOutputs, FakeWorker, function, invocations
from tests.host.processes import until

ACTIVITY = function(ActivityTrigger("x", "f"), clients=("client",))
ORCHESTRATOR = function(OrchestrationTrigger("context", "o"))


async def test_counters_distinguish_successes_from_failures() -> None:
    """Per function."""
    worker = FakeWorker()
    runs = invocations(worker)
    await runs.run(ACTIVITY, {})
    worker.behave = lambda _call: FunctionFailed("ValueError: x", "")
    await runs.run(ACTIVITY, {})
    assert runs.counters == {"f": Counters(started=2, succeeded=1, failed=1)}


async def test_every_invocation_has_an_id_of_its_own() -> None:
    """And none is reused."""
    worker = FakeWorker()
    runs = invocations(worker)
    await asyncio.gather(*(runs.run(ACTIVITY, {}) for _ in range(3)))
    runs.replay(ORCHESTRATOR, "context", "{}")
    ids = {uuid.UUID(call.invocation_id) for call in worker.calls}
    assert len(ids) == 4


async def test_durable_client_is_added_to_what_the_trigger_gives() -> None:
    """For each parameter that is bound to one."""
    worker = FakeWorker()
    runs = invocations(worker)
    runs.durable_client = "binding"
    await runs.run(ACTIVITY, {"x": TypedData(string="1")})
    assert {name: data.value for name, data in worker.calls[0].inputs.items()} == {
        "x": "1",
        "client": "binding",
    }


async def test_outputs_are_sent_before_the_invocation_counts_as_done() -> None:
    """The sender gets what the function set."""
    outputs = FakeOutputs()
    answer = Succeeded(None, {"out": TypedData(string="v")})
    await invocations(FakeWorker(lambda _call: answer), outputs).run(ACTIVITY, {})
    assert outputs.sent == [answer.outputs]


async def test_output_that_cannot_be_sent_fails_the_invocation() -> None:
    """So that the message that triggered it is redelivered."""
    answer = Succeeded(None, {"out": TypedData(string="v")})
    outputs = FakeOutputs(error=OSError("no broker"))
    outcome = await invocations(FakeWorker(lambda _call: answer), outputs).run(ACTIVITY, {})
    assert outcome == FunctionFailed("OSError: an output could not be sent: no broker", "")


async def test_drain_waits_for_what_runs() -> None:
    """True when all have finished in time, else False and a name in the log."""
    worker = FakeWorker(hold=asyncio.Event())
    runs = invocations(worker)
    assert await runs.drain(1)
    task = asyncio.create_task(runs.run(ACTIVITY, {}))
    await asyncio.sleep(0)
    assert not await runs.drain(0.01)
    assert runs.running == 1
    assert worker.hold is not None
    worker.hold.set()
    assert await runs.drain(1)
    await task


def _is_reported(caplog: pytest.LogCaptureFixture, times: int) -> bool:
    return caplog.text.count("functionTimeout") == times


async def test_run_beyond_the_function_timeout_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and later ones in their turn. It is not ended, as Azure would."""
    worker = FakeWorker(hold=asyncio.Event())
    runs = Invocations(worker, FakeOutputs(), timeout=timedelta(milliseconds=10))
    tasks = []
    for expected in (1, 2):
        tasks.append(asyncio.create_task(runs.run(ACTIVITY, {})))
        await until(partial(_is_reported, caplog, expected))
    assert worker.hold is not None
    worker.hold.set()
    assert all(isinstance(outcome, Succeeded) for outcome in await asyncio.gather(*tasks))
    assert all(caplog.text.count(call.invocation_id) == 1 for call in worker.calls)


async def test_orchestrators_failure_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK appends the whole state to the message; the log omits it."""
    failure = FunctionFailed("Exception: boom\n\n$OutOfProcData$:{}", "stack")
    with caplog.at_level(logging.ERROR):
        invocations(FakeWorker(lambda _call: failure)).replay(ORCHESTRATOR, "context", "{}")
    assert caplog.records[0].getMessage().endswith("failed: Exception: boom")
