"""The Shim against hand-written histories: ids, gates, and where the SDK and Durable Task differ."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import azure.durable_functions as df

from functions_local.durable.decisions import Completed, Failed, Restarted, RunActivity, SetTimer
from functions_local.durable.events import ExecutionResumed, ExecutionSuspended
from tests.durable.replaying import Script
from tests.durable.workflows import Steps


def _retry(context: df.DurableOrchestrationContext) -> Steps:
    return (yield context.call_activity_with_retry("A", df.RetryOptions(1000, 2)))


def test_ids_are_given_in_the_order_of_the_calls() -> None:
    """Nested tasks count, too."""

    def nested(context: df.DurableOrchestrationContext) -> Steps:
        inner = context.task_any([context.call_activity("B"), context.call_activity("C")])
        yield context.task_all([context.call_activity("A"), inner, context.call_activity("D")])

    decisions = Script(nested).verdict().decisions
    assert decisions == {n: RunActivity(name, "null") for n, name in enumerate("ABCD")}


def test_a_failed_attempt_is_followed_by_a_timer() -> None:
    """The retry delay counts from the episode that saw the failure."""
    verdict = Script(_retry).scheduled(0, "A").next().failed(0).verdict()
    (timer,) = verdict.decisions.values()
    assert list(verdict.decisions) == [1]
    assert isinstance(timer, SetTimer)
    assert timer.fire_at.isoformat() == "2026-11-21T10:00:03+00:00"


def test_one_more_timer_follows_the_last_attempt() -> None:
    """Without it the SDK would never raise: it does so when that timer has fired."""
    script = (
        Script(_retry).scheduled(0, "A").next().failed(0).timer(1).next().fired(1).scheduled(2, "A").next()
    )
    script.failed(2, "again")
    verdict = script.verdict()
    assert [type(decision) for decision in verdict.decisions.values()] == [SetTimer]
    assert verdict.outcome is None
    outcome = script.timer(3).next().fired(3).verdict().outcome
    assert isinstance(outcome, Failed)
    assert outcome.raised
    assert outcome.error.startswith("again")


def test_a_cancelled_timer_does_not_hold_completion() -> None:
    """An open timer does."""

    def racing(context: df.DurableOrchestrationContext) -> Steps:
        timer = context.create_timer(context.current_utc_datetime + timedelta(seconds=60))
        yield context.task_any([context.call_activity("A"), timer])
        if context.get_input() == "cancel":
            timer.cancel()

    for given, outcome in (("cancel", Completed(None)), ("leave", None)):
        script = Script(racing, input=f'"{given}"').scheduled(0, "A").timer(1).next().completed(0)
        assert script.verdict().outcome == outcome


def test_decisions_wait_while_suspended() -> None:
    """New events are held and decisions are parked; both return once."""

    def two(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("A")
        yield context.call_activity("B")

    script = Script(two).scheduled(0, "A").next()
    script.events.append(ExecutionSuspended(reason=None))
    script.completed(0)
    verdict = script.verdict()
    assert (verdict.suspended, verdict.decisions) == (True, {})
    script.next()
    script.events.append(ExecutionResumed(reason=None))
    assert script.verdict().decisions == {1: RunActivity("B", "null")}
    script.scheduled(1, "B").next()
    script.events.append(ExecutionResumed(reason=None))
    assert script.verdict().decisions == {}


def test_decisions_are_parked_by_a_suspend_in_the_same_episode() -> None:
    """Decisions before the suspend that were not recorded are made after the resume."""

    def one(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("A")

    script = Script(one)
    script.events.append(ExecutionSuspended(reason=None))
    assert script.verdict().decisions == {}
    script.next()
    script.events.append(ExecutionResumed(reason=None))
    assert script.verdict().decisions == {0: RunActivity("A", "null")}


def test_changed_code_is_detected() -> None:
    """Another activity, a timer instead of one, or nothing where history has an activity."""

    def changed(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("A")

    for script in (
        Script(changed).scheduled(0, "B").next(),
        Script(changed).timer(0).next(),
        Script(changed).scheduled(0, "A").scheduled(1, "A").next(),
    ):
        outcome = script.verdict().outcome
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith("Non-Deterministic workflow detected: ")
        assert not outcome.raised


def test_a_result_that_arrives_twice_counts_once() -> None:
    """Activities are run at least once."""

    def once(context: df.DurableOrchestrationContext) -> Steps:
        return (yield context.call_activity("A"))

    script = Script(once).scheduled(0, "A").next().completed(0, "1").completed(0, "2")
    assert script.verdict().outcome == Completed(1)


def test_unread_events_are_carried_over() -> None:
    """Those from before and those from after the continue-as-new, in order of arrival."""

    def eternal(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("A")
        context.continue_as_new(1)

    script = Script(eternal).scheduled(0, "A").next().raised("x", "1").completed(0).raised("y", "2")
    outcome = script.verdict().outcome
    assert isinstance(outcome, Restarted)
    assert outcome.input == "1"
    assert [event.name for event in outcome.unread] == ["x", "y"]


def test_divergence_retry_beside_a_failure_reuses_an_id() -> None:
    """A known bug of SDK 1.7.0, expected: C is "done" with the retry timer of B, and never runs.

    So no activity that may raise belongs in task_all.
    """

    def trap(context: df.DurableOrchestrationContext) -> Steps:
        tasks = [context.call_activity("A"), context.call_activity_with_retry("B", df.RetryOptions(1000, 3))]
        with contextlib.suppress(Exception):
            yield context.task_all(tasks)
        return ["C", (yield context.call_activity("C"))]

    script = Script(trap).scheduled(0, "A").scheduled(1, "B").next().failed(0)
    assert script.verdict().decisions == {}  # the gate: B's retries come first
    script.next().failed(1)
    assert list(script.verdict().decisions) == [2]
    script.timer(2).next().fired(2)
    assert script.state().output == ["C", None]
    assert script.verdict().decisions == {3: RunActivity("B", "null")}


def test_divergence_nested_task_all_breaks_the_sdk() -> None:
    """A known bug of SDK 1.7.0, expected: a failure and then a success in a nested task_all."""

    def trap(context: df.DurableOrchestrationContext) -> Steps:
        inner = context.task_all([context.call_activity("A"), context.call_activity("B")])
        with contextlib.suppress(Exception):
            yield context.task_all([inner, context.call_activity("D")])
        return (yield context.call_activity("C"))

    script = Script(trap).scheduled(0, "A").scheduled(1, "B").scheduled(2, "D").next().failed(0)
    script.next().completed(1, "1")
    assert "does not have pending sub-task" in (script.state().error or "")
    outcome = script.verdict().outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("Non-Deterministic workflow detected: ")


def test_divergence_event_names_differ_in_case() -> None:
    """Durable Task ignores case, the SDK does not: `GO` satisfies one and not the other."""

    def waiting(context: df.DurableOrchestrationContext) -> Steps:
        yield context.wait_for_external_event("go")
        yield context.call_activity("A")

    script = Script(waiting).next().raised("GO", "1")
    assert script.verdict().decisions == {}
    assert script.raised("go", "2").verdict().decisions == {0: RunActivity("A", "null")}
