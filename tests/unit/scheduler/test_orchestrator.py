"""The orchestrator, replayed by the real SDK: claim, then run what is ready until nothing is."""

from __future__ import annotations

import pytest

from tests.fakes.workflows import TASK
from tests.unit.scheduler.replay import Instance

#: The SDK advises expected types once in a process; ours are plain JSON, for which it has none to name.
pytestmark = pytest.mark.filterwarnings("ignore:azure.functions df_loads was called:DeprecationWarning")


@pytest.fixture
def instance() -> Instance:
    """Make an instance that has not begun."""
    return Instance()


def test_claim_comes_first(instance: Instance) -> None:
    """It gets the attempt that the instance was started with."""
    assert instance.begin() == ["claim"]
    assert instance.inputs == [{"task": TASK, "epoch": 1}]
    assert instance.output is None


def test_task_that_is_not_claimed_ends_at_once(instance: Instance) -> None:
    """Another Scheduler holds it; no step is dispatched."""
    instance.begin()
    assert instance.answer("claim", outcome="not claimed", ready=[]) == []
    assert instance.output == "not claimed"


def test_one_step_is_run_to_its_end(instance: Instance) -> None:
    """The activity gets ids and a step name, and nothing else."""
    instance.begin()
    assert instance.answer("claim", outcome="claimed", ready=["payment"]) == ["payment"]
    assert instance.inputs[1] == {"task": TASK, "epoch": 1, "step": "payment"}
    assert instance.output is None
    assert instance.answer("payment", outcome="completed", ready=[]) == []
    assert instance.output == "completed"


def test_all_ready_steps_are_dispatched_together(instance: Instance) -> None:
    """Neither side of the diamond waits for the other."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["open"])
    assert instance.answer("open", outcome="completed", ready=["left", "right"]) == ["left", "right"]
    assert instance.answer("right", outcome="completed", ready=["left"]) == []
    assert instance.answer("left", outcome="completed", ready=["close"]) == ["close"]
    assert instance.answer("close", outcome="completed", ready=[]) == []
    assert instance.output == "completed"


def test_step_that_becomes_ready_does_not_wait_for_others(instance: Instance) -> None:
    """A slow step holds up only what needs it."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["slow", "quick"])
    assert instance.answer("quick", outcome="completed", ready=["slow", "after-quick"]) == ["after-quick"]
    assert instance.output is None


def test_step_is_dispatched_once_in_an_attempt(instance: Instance) -> None:
    """Two reports of one episode that both name it make one dispatch."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["left", "right"])
    both = {"outcome": "completed", "ready": ["close"]}
    assert instance.answer_together({"left": both, "right": both}) == ["close"]


@pytest.mark.parametrize("outcome", ["failed", "expired", "stale"])
def test_step_that_does_not_complete_stops_dispatch_but_waits_for_the_running(
    instance: Instance, outcome: str
) -> None:
    """The other side may end; what needs both is not dispatched."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["left", "right"])
    assert instance.answer("left", outcome=outcome, ready=[]) == []
    assert instance.output is None
    assert instance.answer("right", outcome="stale", ready=[]) == []
    assert instance.output == "stale"


REQUESTED = {"outcome": "requested", "ready": [], "step": "pay", "complete_by": "2026-11-21T10:00:30+00:00"}


@pytest.fixture
def requesting(instance: Instance) -> Instance:
    """Make an instance whose only step is requested of an Agent behind a queue."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["pay"])
    instance.answer("pay", **REQUESTED)
    return instance


def test_reply_is_waited_for_until_complete_by(requesting: Instance) -> None:
    """By an event whose name no other attempt has."""
    assert requesting.awaited == ["reply:pay:1"]
    assert [timer["fireAt"][:19] for timer in requesting.timers] == ["2026-11-21T10:00:30"]
    assert requesting.output is None


def test_reply_makes_what_follows_ready_and_cancels_its_timer(requesting: Instance) -> None:
    """A timer that is not cancelled keeps the instance running."""
    assert requesting.reply("reply:pay:1", outcome="completed", ready=["send"]) == ["send"]
    assert [timer["isCanceled"] for timer in requesting.timers] == [True]
    requesting.answer("send", outcome="completed", ready=[])
    assert requesting.output == "completed"


def test_reply_that_does_not_come_ends_the_wait(requesting: Instance) -> None:
    """The Supervisor decides what happens next."""
    assert requesting.fire_timer() == []
    assert requesting.output == "expired"


def test_reply_may_come_before_it_is_waited_for(instance: Instance) -> None:
    """The Agent was quicker than the Scheduler's own activity."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["pay"])
    with pytest.warns(UserWarning, match="duplicate"):
        instance.reply("reply:pay:1", outcome="completed", ready=[])
    with pytest.warns(UserWarning, match="duplicate"):
        instance.answer("pay", **REQUESTED)
    assert instance.output == "completed"


def test_requested_step_holds_up_only_what_needs_it(instance: Instance) -> None:
    """Beside it, activities go on."""
    instance.begin()
    instance.answer("claim", outcome="claimed", ready=["pay", "pack"])
    instance.answer("pay", **REQUESTED)
    assert instance.answer("pack", outcome="completed", ready=["label"]) == ["label"]
    instance.answer("label", outcome="completed", ready=[])
    assert instance.output is None
    instance.reply("reply:pay:1", outcome="completed", ready=[])
    assert instance.output == "completed"
