"""One trace follows every order, from the HTTP request to the last remote call."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.caller import ORDER
from tests.e2e.fleet.bench import submit
from tests.e2e.fleet.services import STEPS, asking
from tests.e2e.recovery.bench import Bench, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.telemetry.receiver import Receiver, SeenSpan

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]

_CLIENT, _SERVER = Span.SpanKind.SPAN_KIND_CLIENT, Span.SpanKind.SPAN_KIND_SERVER
_CALLERS_TRACE = "0af7651916cd43dd8448eb211c80319c"
_CALLERS_SPAN = "b7ad6b7169203331"


async def test_delivery_is_one_trace(bench: Bench, receiver: Receiver) -> None:
    """From the HTTP request to the calls of all five services, every span descends from the request's."""
    await submit(bench, "traced")
    await bench.until_state("traced", "Processed")
    names = {"process submissions", "run_steps", *(f"step {step}" for step in STEPS)}
    spans = await _trace_of(receiver, "traced", calls=6, names=names)
    root = _only_root(spans)
    assert (root.kind, root.name) == (_SERVER, "PUT /api/deliveries/{id}")
    assert {call.facts["peer.service"] for call in _calls(spans)} == set(STEPS)


async def test_callers_trace_goes_on(bench: Bench, receiver: Receiver) -> None:
    """A caller that sends `traceparent` finds the order in its own trace, through a queue Agent and back."""
    headers = {"traceparent": f"00-{_CALLERS_TRACE}-{_CALLERS_SPAN}-01"}
    async with bench.session.put("/api/orders/callers", json=ORDER, headers=headers) as answer:
        assert answer.status == 202
    await bench.until_state("callers", "Processed")
    names = {"step payment", "process agent-payment-requests", "process agent-replies"}
    spans = await _trace_of(receiver, "callers", calls=1, names=names)
    assert _only_root(spans, outside=_CALLERS_SPAN).trace == _CALLERS_TRACE
    assert {call.facts["peer.service"] for call in _calls(spans)} == {"payment"}


async def test_recovery_is_linked_to_what_it_recovers(bench: Bench, receiver: Receiver) -> None:
    """The Supervisor's span links to the order's trace, and the next epoch's to the Supervisor's."""
    bench.remote.script(asking("recovered", "drone"), Behaviour.HANGS, Behaviour.ANSWERS)
    await submit(bench, "recovered")
    await bench.until_state("recovered", "Processed")
    root = _only_root(await _trace_of(receiver, "recovered", calls=7))
    recovery = await _seen(receiver, "recovered", "recover")
    assert recovery.trace != root.trace
    await until(lambda: recovery.parent in receiver.in_trace(recovery.trace))
    assert receiver.in_trace(recovery.trace)[recovery.parent].name == "supervisor sweep"
    assert {trace for trace, _ in recovery.links} == {root.trace}

    def again() -> list[SeenSpan]:
        spans = receiver.in_trace(root.trace).values()
        return [span for span in spans if span.facts.get("task.epoch") == 2]

    await until(lambda: {span.name for span in again()} == {"run_steps", "step drone", "step delivery"})
    assert all(span.links == {(recovery.trace, recovery.id)} for span in again())


async def test_each_order_of_a_batch_has_its_own_trace(bench: Bench, receiver: Receiver) -> None:
    """Two orders of one request are two traces, each linked to the request's span."""
    orders = [{**ORDER, "id": f"batched-{number}"} for number in range(2)]
    async with bench.session.post("/api/orders/batch", json={"orders": orders}) as answer:
        assert answer.status == 200
    for order in orders:
        await bench.until_state(str(order["id"]), "Processed")
    roots = []
    for order in orders:
        spans = await _trace_of(receiver, str(order["id"]), calls=1)
        roots.append(_only_root(spans))
    await until(lambda: any(span.name == "POST /api/orders/batch" for span in receiver.spans))
    request = _one(receiver.spans, "POST /api/orders/batch")
    assert len({request.trace, *(root.trace for root in roots)}) == 3
    assert [root.links for root in roots] == [{(request.trace, request.id)}] * 2


async def test_log_records_name_task_step_and_trace(bench: Bench, receiver: Receiver) -> None:
    """An Agent's log line can be found by task and step, and in the order's trace."""
    bench.remote.script(asking("logged", "drone"), Behaviour.IS_DOWN, Behaviour.ANSWERS)
    await submit(bench, "logged")
    await bench.until_state("logged", "Processed")
    await until(lambda: any(record.facts.get("task.id") == "logged" for record in receiver.records))
    record = next(each for each in receiver.records if each.facts.get("task.id") == "logged")
    assert record.text.startswith("drone answered 503; attempt 2 follows in ")
    assert (record.facts["step.name"], record.facts["task.epoch"]) == ("drone", 1)
    assert record.trace == (await _seen(receiver, "logged", "submit")).trace


async def test_metrics_are_exported(bench: Bench, receiver: Receiver) -> None:
    """They are exported under the documented names."""
    await submit(bench, "counted")
    await bench.until_state("counted", "Processed")
    wanted = {
        "tasks.submitted",
        "tasks.processed",
        "task.duration",
        "step.duration",
        "breaker.state",
        "sweep.duration",
        "tasks.overdue",
    }
    await until(lambda: wanted <= receiver.metrics)


async def test_no_library_adds_telemetry_of_its_own(bench: Bench, receiver: Receiver) -> None:
    """Libraries' own telemetry contains paths, queries and texts of exceptions."""
    async with bench.session.put("/api/orders/refused", json={}) as answer:
        assert answer.status == 422
    await submit(bench, "ours")
    await bench.until_state("ours", "Processed")
    await _trace_of(receiver, "ours", calls=6)
    assert {scope.partition(".")[0] for scope in receiver.scopes} == {"functions"}


async def _trace_of(
    receiver: Receiver, task: str, *, calls: int, names: Collection[str] = ("run_steps",)
) -> Mapping[str, SeenSpan]:
    """Wait for at least `calls` calls and spans of these names, and return a task's trace by span id.

    Spans and records are exported in batches, each on its own, so that any of them can be the last.
    """
    trace = (await _seen(receiver, task, "submit")).trace

    def is_whole() -> bool:
        spans = receiver.in_trace(trace)
        return (
            len(_calls(spans)) >= calls
            and {*names} <= {span.name for span in spans.values()}
            and len(_roots(spans)) == 1
        )

    try:
        await until(is_whole)
    except TimeoutError:
        raise AssertionError(f"timed out: {receiver.spans}") from None
    return receiver.in_trace(trace)


async def _seen(receiver: Receiver, task: str, name: str) -> SeenSpan:
    """Wait for a task's span of this name."""
    await until(lambda: any(span.name == name for span in receiver.of_task(task)))
    return _one(receiver.of_task(task), name)


def _one(spans: list[SeenSpan], name: str) -> SeenSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def _calls(spans: Mapping[str, SeenSpan]) -> list[SeenSpan]:
    return [span for span in spans.values() if span.kind == _CLIENT]


def _roots(spans: Mapping[str, SeenSpan]) -> list[SeenSpan]:
    """Return the spans whose parent is not among them: a connected trace has one."""
    return [span for span in spans.values() if span.parent not in spans]


def _only_root(spans: Mapping[str, SeenSpan], *, outside: str = "") -> SeenSpan:
    (root,) = _roots(spans)
    assert root.parent == outside
    return root
