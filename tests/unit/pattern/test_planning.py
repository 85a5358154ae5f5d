"""Planning names the steps that can be dispatched now."""

from __future__ import annotations

from functions.pattern.events import Event
from functions.pattern.steps import ready_steps
from tests.fakes.tasks import claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND


def _ready_after(*events: Event) -> tuple[str, ...]:
    return ready_steps(DIAMOND, told(pending(), *events))


def _done(*steps: str) -> list[Event]:
    return [event for step in steps for event in (started(step), completed(step))]


def test_nothing_is_ready_before_the_claim() -> None:
    """Without a holder nobody may dispatch."""
    assert _ready_after() == ()


def test_steps_without_needs_are_ready_first() -> None:
    """The diamond has one entrance."""
    assert _ready_after(claimed()) == ("open",)


def test_independent_steps_are_ready_together() -> None:
    """The diamond's two sides run side by side, in the order of the definition."""
    assert _ready_after(claimed(), *_done("open")) == ("left", "right")


def test_step_waits_for_all_that_it_needs() -> None:
    """One side alone does not close the diamond; the other side stays on the list."""
    assert _ready_after(claimed(), *_done("open", "right")) == ("left",)
    assert _ready_after(claimed(), *_done("open", "right", "left")) == ("close",)


def test_running_step_is_named_again() -> None:
    """After a recovery somebody has to take it up."""
    assert _ready_after(claimed(), *_done("open"), started("left")) == ("left", "right")


def test_nothing_is_ready_in_a_finished_task() -> None:
    """Neither after the last step nor after a refusal."""
    assert _ready_after(claimed(), *_done("open", "left", "right", "close")) == ()
    assert _ready_after(claimed(), *_done("open"), started("left"), failed("left")) == ()
