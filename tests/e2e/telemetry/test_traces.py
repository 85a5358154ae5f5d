"""One trace follows every order, from the HTTP request to the last remote call."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.caller import ORDER
from tests.e2e.deliveries import STEPS, asking, submit
from tests.e2e.recovery.bench import Bench, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.telemetry.receiver import Receiver, SeenSpan

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_CLIENT, _SERVER = Span.SpanKind.SPAN_KIND_CLIENT, Span.SpanKind.SPAN_KIND_SERVER
_CALLERS_TRACE = "0af7651916cd43dd8448eb211c80319c"
_CALLERS_SPAN = "b7ad6b7169203331"
_METRICS = {"tasks.submitted", "tasks.processed", "task.duration", "step.duration"}


async def test_delivery_is_one_trace(bench: Bench, receiver: Receiver) -> None:
    """From the HTTP request to the calls of all five services, every span descends from the request's.

    A log line of an Agent names task and step, and is in the trace. The documented metrics are exported, and
    no library adds telemetry of its own.
    """
    bench.remote.script(asking("traced", "drone"), Behaviour.IS_DOWN, Behaviour.ANSWERS)
    await submit(bench, "traced")
    await bench.until_state("traced", "Processed")
    names = {"process submissions", "run_agents", *(f"step {step}" for step in STEPS)}
    spans = await _trace_of(receiver, "traced", calls=10, names=names)
    root = _only_root(spans)
    assert (root.kind, root.name) == (_SERVER, "PUT /api/deliveries/{id}")
    assert {call.facts["peer.service"] for call in _calls(spans)} == set(STEPS)
    await until(lambda: any(record.facts.get("task.id") == "traced" for record in receiver.records))
    record = next(each for each in receiver.records if each.facts.get("task.id") == "traced")
    assert record.text.startswith("drone answered 503; attempt 2 follows in ")
    assert (record.facts["step.name"], record.facts["task.epoch"], record.trace) == ("drone", 1, root.trace)
    await until(lambda: receiver.metrics >= _METRICS)
    assert {scope.partition(".")[0] for scope in receiver.scopes} == {"functions"}


async def test_callers_trace_continues(bench: Bench, receiver: Receiver) -> None:
    """A caller that sends `traceparent` finds the order in its own trace, through a queue Agent and back."""
    headers = {"traceparent": f"00-{_CALLERS_TRACE}-{_CALLERS_SPAN}-01"}
    async with bench.session.put("/api/orders/callers", json=ORDER, headers=headers) as answer:
        assert answer.status == 202
    await bench.until_state("callers", "Processed")
    names = {"step payment", "process agent-payment-requests", "process agent-replies"}
    spans = await _trace_of(receiver, "callers", calls=1, names=names)
    assert _only_root(spans, outside=_CALLERS_SPAN).trace == _CALLERS_TRACE
    assert {call.facts["peer.service"] for call in _calls(spans)} == {"payment"}


async def _trace_of(
    receiver: Receiver, task: str, *, calls: int, names: Collection[str]
) -> Mapping[str, SeenSpan]:
    """Wait for at least `calls` calls and spans of these names, and return a task's trace by span id.

    Spans and records are exported in batches, each on its own, so that any of them can be the last.
    """
    await until(lambda: _submits(receiver, task) != [])
    [submitted] = _submits(receiver, task)

    def is_complete() -> bool:
        spans = receiver.in_trace(submitted.trace)
        is_named = {*names} <= {span.name for span in spans.values()}
        return is_named and len(_calls(spans)) >= calls and len(_roots(spans)) == 1

    try:
        await until(is_complete)
    except TimeoutError:
        raise AssertionError(f"timed out: {receiver.spans}") from None
    return receiver.in_trace(submitted.trace)


def _submits(receiver: Receiver, task: str) -> list[SeenSpan]:
    return [span for span in receiver.of_task(task) if span.name == "submit"]


def _calls(spans: Mapping[str, SeenSpan]) -> list[SeenSpan]:
    return [span for span in spans.values() if span.kind == _CLIENT]


def _roots(spans: Mapping[str, SeenSpan]) -> list[SeenSpan]:
    """Return the spans whose parent is not among them: a connected trace has one."""
    return [span for span in spans.values() if span.parent not in spans]


def _only_root(spans: Mapping[str, SeenSpan], *, outside: str = "") -> SeenSpan:
    (root,) = _roots(spans)
    assert root.parent == outside
    return root
