"""What the state store keeps of one step of a task, now and as it stood when an epoch ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.pattern.identity import Epoch, StartId, StepName
from functions.pattern.shape import StepShape
from functions.pattern.states import Remedy, StepState

#: How often a step is dispatched within an epoch, as its requests were not taken: then it is overdue.
MOST_DISPATCHES = 10

#: How the error begins of a step without which its task went on while nobody knew what came of it.
OUTCOME_UNKNOWN = "outcome unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """The state of one step, or of one item of a for-each step.

    `result` is JSON bytes (read it as `known_result`); `epoch` is the one that dispatched it last.
    `activity` is the number of the `run_steps` that dispatched it, and `start_id` is that one start's own.
    What was `received` is its event, as JSON bytes; who told it, and why, is `told_by` and `told_why`.
    Who told it was first turned away at `turned_away_at`, as the task's version was not deployed there.
    While it runs, `attempts` calls of it have failed, the last of them with `error`. What an operator has to
    know of it besides is `noted`. Its `shape` is a part of the order's. If `handed_over`, its child is there.
    Over a queue, it was `asked_at` that time; `not_taken` are the starts in this epoch whose requests waited
    for too long, and were not begun.
    """

    shape: StepShape
    state: StepState = StepState.NOT_STARTED
    complete_by: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    epoch: Epoch | None = None
    result: bytes | None = field(default=None, repr=False)
    error: str | None = None
    token: str | None = field(default=None, repr=False)
    activity: int | None = None
    start_id: StartId | None = None
    attempts: int | None = None
    noted: str | None = None
    received: bytes | None = field(default=None, repr=False)
    told_by: str | None = None
    told_why: str | None = None
    turned_away_at: datetime | None = None
    handed_over: bool | None = None
    asked_at: datetime | None = None
    not_taken: tuple[StartId, ...] = ()

    @property
    def name(self) -> StepName:
        """Name the step."""
        return self.shape.name

    @property
    def began_at(self) -> datetime | None:
        """Tell when it was dispatched last: over a queue, complete-by also has the time to be picked up."""
        if self.asked_at is not None or self.complete_by is None:
            return self.asked_at
        return self.complete_by - timedelta(seconds=self.shape.complete_within)

    @property
    def is_waiting(self) -> bool:
        """Tell whether it waits for its event, its time, or its task, whatever epoch began that."""
        return self.shape.via.waits and self.state.is_under_way

    def is_late(self, now: datetime) -> bool:
        """Tell whether it is under way beyond its complete-by."""
        return self.state.is_under_way and self.complete_by is not None and self.complete_by <= now

    @property
    def known_result(self) -> bytes | None:
        """Give its result, as JSON bytes; the event that completed it is kept once, as what was received."""
        told = self.received if self.state is StepState.COMPLETED else None
        return told if self.result is None else self.result

    @property
    def may_fail(self) -> bool:
        """Tell whether the task goes on without it when it fails."""
        return self.shape.on_failure is Remedy.CONTINUE

    @property
    def settled(self) -> bool:
        """Tell whether the steps that need it can start: it is done, not needed, or may fail and did."""
        if self.state is StepState.FAILED:
            return self.may_fail
        return self.state in {StepState.COMPLETED, StepState.SKIPPED}

    @property
    def needs_undo(self) -> bool:
        """Tell whether it may have had an effect that stands: outcome unknown is not "not done"."""
        return self.shape.undo and self.started_at is not None and self.state is not StepState.UNDONE

    @property
    def never_twice(self) -> bool:
        """Tell whether it was started, its outcome is unknown, and it must not be started again."""
        return self.state is StepState.RUNNING and not self.shape.idempotent

    @property
    def was_not_taken(self) -> bool:
        """Tell whether the request of its latest start was not begun: nobody is at work on it."""
        return self.start_id is not None and self.start_id in self.not_taken

    def may_be_dispatched(self, epoch: Epoch) -> bool:
        """Tell whether the epoch has not dispatched it in vain too often."""
        return self.epoch != epoch or len(self.not_taken) < MOST_DISPATCHES

    def dispatch_of(self, start: StartId | None) -> int:
        """Tell which start of its epoch it is, from 1 on."""
        known = start is not None and start in self.not_taken
        return 1 + (self.not_taken.index(start) if known else len(self.not_taken))

    @property
    def given_up(self) -> bool:
        """Tell whether its task has gone on without it, and nobody knows what came of it."""
        has_failed = self.may_fail and self.state is StepState.FAILED
        return has_failed and (self.error or "").startswith(OUTCOME_UNKNOWN)

    @property
    def in_doubt(self) -> bool:
        """Tell whether it must not be repeated, and nobody knows what came of it."""
        return self.never_twice or (self.given_up and not self.shape.idempotent)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStep:
    """How a step stood when an epoch ended. It is small: an epoch's steps are kept in one property.

    `start_id` is kept of what must not be repeated, so that its late outcome is recognised.
    """

    name: StepName
    state: StepState
    complete_by: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    epoch: Epoch | None = None
    error: str | None = None
    start_id: StartId | None = None
