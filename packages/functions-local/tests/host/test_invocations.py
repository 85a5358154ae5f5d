"""Rules of every invocation, for any trigger."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import pytest

from functions_local.app import ActivityTrigger, Function, OrchestrationTrigger
from functions_local.invocations import Counters, Invocations
from functions_local.protos import TypedData
from functions_local.worker import Call, FunctionFailed, Outcome, Succeeded
from tests.host.doubles import FakeOutputs, FakeWorker, function, invocations

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


async def test_durable_client_is_added_to_the_triggers_input() -> None:
    """For each parameter that is bound to one."""
    worker = FakeWorker()
    runs = invocations(worker)
    runs.durable_client = "binding"
    await runs.run(ACTIVITY, {"x": TypedData(string="1")})
    assert {name: data.value for name, data in worker.calls[0].inputs.items()} == {
        "x": "1",
        "client": "binding",
    }


@pytest.mark.parametrize(("output", "value"), [("out", "set"), ("$return", "returned"), ("other", None)])
async def test_outputs_are_sent_before_the_invocation_counts_as_done(output: str, value: str | None) -> None:
    """The sender gets what the function set or returned, by the bindings that the function has."""
    outputs = FakeOutputs()
    answer = Succeeded(TypedData(string="returned"), {"out": TypedData(string="set")})
    sending = function(ActivityTrigger("x", "f"), output=output)
    await invocations(FakeWorker(lambda _call: answer), outputs).run(sending, {})
    sent = {name: data.value for given in outputs.sent for name, data in given.items()}
    assert sent == ({} if value is None else {output: value})


async def test_output_that_cannot_be_sent_fails_the_invocation() -> None:
    """So that the message that triggered it is redelivered."""
    answer = Succeeded(None, {"out": TypedData(string="v")})
    outputs = FakeOutputs(error=OSError("no broker"))
    sending = function(ActivityTrigger("x", "f"), output="out")
    outcome = await invocations(FakeWorker(lambda _call: answer), outputs).run(sending, {})
    assert outcome == FunctionFailed("OSError: an output could not be sent: no broker", "")


async def test_drain_waits_for_running_invocations() -> None:
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


class _Disobeys(FakeWorker):
    """Its functions ignore a cancellation, run until `hold` is set, and then succeed with an output."""

    async def invoke(self, call: Call) -> Outcome:
        """Run until `hold` is set, after one ignored cancellation."""
        assert self.hold is not None
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await self.hold.wait()
        return self.behave(call)


@pytest.mark.parametrize("kind", [FakeWorker, _Disobeys])
async def test_run_beyond_the_function_timeout_is_ended_and_fails(
    caplog: pytest.LogCaptureFixture, kind: type[FakeWorker]
) -> None:
    """Each invocation ends at its own timeout, even if ignored; outputs after the timeout are not sent."""
    go_on, outputs = asyncio.Event(), FakeOutputs()
    worker = kind(lambda _call: Succeeded(None, {"out": TypedData(string="late")}), hold=go_on)
    runs = Invocations(worker, outputs, timeout=timedelta(milliseconds=50))
    sending = function(ActivityTrigger("x", "f"), output="out")
    for expected in (1, 2):
        outcome = await runs.run(sending, {})
        assert outcome == FunctionFailed("it was ended at functionTimeout (0.05 s)", "")
        assert runs.counters["f"].failed == expected
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    assert caplog.text.count("functionTimeout") == 2
    assert not await runs.drain(1), "something may still run"
    left = asyncio.all_tasks() - {current}
    go_on.set()
    await asyncio.gather(*left, return_exceptions=True)
    assert outputs.sent == []


async def test_output_that_takes_too_long_fails_the_invocation() -> None:
    """Even if the sender swallows the cancellation."""

    class Slow(FakeOutputs):
        async def send(self, _function: Function, _outputs: Mapping[str, TypedData]) -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    answer = Succeeded(None, {"out": TypedData(string="v")})
    runs = Invocations(FakeWorker(lambda _call: answer), Slow(), timeout=timedelta(milliseconds=50))
    outcome = await runs.run(function(ActivityTrigger("x", "f"), output="out"), {})
    assert outcome == FunctionFailed("it was ended at functionTimeout (0.05 s)", "")


@pytest.mark.parametrize("kind", [FakeWorker, _Disobeys])
async def test_cancelled_run_is_cancelled(kind: type[FakeWorker]) -> None:
    """A stop of the host is no timeout, and does not wait for a function that does not obey."""
    go_on = asyncio.Event()
    runs = Invocations(kind(hold=go_on), FakeOutputs(), timeout=timedelta(hours=1))
    task = asyncio.create_task(runs.run(ACTIVITY, {}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runs.running == 0
    go_on.set()


async def test_orchestrators_failure_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK appends the whole state to the message; the log omits it."""
    failure = FunctionFailed("Exception: boom\n\n$OutOfProcData$:{}", "stack")
    with caplog.at_level(logging.ERROR):
        invocations(FakeWorker(lambda _call: failure)).replay(ORCHESTRATOR, "context", "{}")
    assert caplog.records[0].getMessage().endswith("failed: Exception: boom")
