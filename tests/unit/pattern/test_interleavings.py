"""Whatever the order in which Schedulers, Supervisors and operators speak, the record stays sound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from functions.pattern.crowds import Behind, CrowdCause, CrowdPolicy
from functions.pattern.decisions import in_question
from functions.pattern.definition import Default, Workflow
from functions.pattern.easing import may_be_extended, more_time, turn
from functions.pattern.epochs import FINAL
from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import (
    Cancelled,
    Eased,
    Event,
    FoundNotDone,
    GivenUp,
    MessageLost,
    OperatorEvent,
    Parked,
    ParkingEvent,
    Recovered,
    Released,
    SchedulerEvent,
    StepCompleted,
    StepFailed,
    StepNotTaken,
    StepOutcome,
    StepStarted,
    StepTried,
)
from functions.pattern.identity import Epoch, SchedulerId, StepName, scheduler_id, step_of
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import Direction, Expiry, ProcessState, Remedy, StepState
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import apply
from functions.pattern.wait_events import (
    ChildEnded,
    EventReceived,
    HandedBack,
    PutOff,
    TurnedAway,
    WaitsEnded,
)
from tests.fakes.interventions import (
    cancellation,
    found_done,
    found_not_done,
    park_request,
    resubmission,
    result_given,
    undo_request,
    unparking,
)
from tests.fakes.tasks import FIRST, claimed, completed, failed, pending, started, unrecorded
from tests.fakes.workflows import BIRTH, TASK, awaiting, each, nested, step, workflow
from tests.unit.pattern.invariants import (
    CANCEL_WITHIN,
    LONGEST_EXTENSION,
    SoundRecord,
    check_change,
    check_time,
    is_late,
    is_refused,
)

#: So many items run at the same time.
AT_ONCE = 1
POLICY = SupervisionPolicy(
    threshold=1,
    extended_waits=(timedelta(seconds=20),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=10),
    crowd=CrowdPolicy(longest=timedelta(seconds=LONGEST_EXTENSION)),
)
CROWD = Behind("Agent left", CrowdCause.NO_REPLY)


def lively_workflow(remedy: Remedy, *, idempotent: bool, by_default: bool = False) -> Workflow:
    """Define steps of each kind, side by side."""
    return workflow(
        step("open", undo=True),
        step("left", "open", undo=True),
        step("right", "open", idempotent=idempotent),
        awaiting("approve", "open", on_expiry=Default({"approved": True}) if by_default else Expiry.REFUSE),
        nested("part", "open"),
        each("call", "open", undo=True, at_once=AT_ONCE),
        step("close", "left", "right", "approve", "part", "call", undo=True),
        remedy=remedy,
        cancel_within=CANCEL_WITHIN,
    )


STRANGER = SchedulerId("somebody-else")
BEHIND = st.sampled_from([0, 0, 0, 1])  # epochs
WAITS = ("approve", "part")
STEPS = ("open", "left", "right", "call.1", "close")
EVENTS = st.sampled_from(
    [
        claimed(),
        Parked(epoch=FIRST, scheduler=STRANGER, reason="not deployed here"),
        *(say(step) for say in (started, completed, failed) for step in STEPS),
    ]
)
ANSWERS = (partial(found_done, "right"), partial(found_not_done, "right"))
DEEDS = (*(partial(result_given, name) for name in ("open", "left", "right")), park_request, unparking)
OF_WORKFLOWS = (Remedy.COMPENSATE, Remedy.HOLD)
SECONDS = st.sampled_from([1, 5, 16, 40])


class LifeOfATask(SoundRecord):
    """Schedulers of all epochs and a stranger, Supervisors that act late, and operators."""

    @initialize(
        remedy=st.sampled_from(OF_WORKFLOWS),
        idempotent=st.booleans(),
        by_default=st.booleans(),
        items=st.integers(0, 2),
    )
    def recorded(self, *, remedy: Remedy, idempotent: bool, by_default: bool, items: int) -> None:
        """Record a task whose workflow has one remedy or the other, and with so many items."""
        self.workflow = lively_workflow(remedy, idempotent=idempotent, by_default=by_default)
        self.record = pending(self.workflow, weight=items)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: int) -> None:
        """Complete-by times may pass."""
        self.now += timedelta(seconds=seconds)

    @rule(event=EVENTS, behind=BEHIND, seconds=SECONDS, stranger=st.booleans())
    def speak(self, event: SchedulerEvent, behind: int, seconds: int, stranger: bool) -> None:  # noqa: FBT001 - as above
        """Let any Scheduler or Agent say anything, also what it is not its turn to say."""
        if getattr(event, "step", "open") not in {each.name for each in self.record.steps}:
            return
        epoch = Epoch(max(1, self.record.task.epoch - behind))
        speaker = STRANGER if stranger else scheduler_id(TASK, epoch)
        self._tell(self._timed(replace(event, epoch=epoch, scheduler=speaker), seconds))

    @precondition(lambda self: self.record.task.process_state not in FINAL)
    @rule(outcome=st.sampled_from([completed, completed, failed, None, None]), seconds=SECONDS)
    def go_on(self, outcome: Callable[..., StepCompleted | StepFailed] | None, seconds: int) -> None:
        """Do what the rightful Scheduler does next, so that tasks get far; an Agent may stay silent."""
        epoch, scheduler = self.record.task.epoch, self._rightful()
        self._tell(self._timed(replace(claimed(epoch), scheduler=scheduler), 10))
        for name in ready_steps(self.record):
            if self.record.step(name).epoch != epoch:
                self._tell(self._timed(replace(started(name, epoch), scheduler=scheduler), seconds))
                if outcome is not None and self.record.step(name).epoch == epoch and name not in WAITS:
                    self._tell(self._timed(replace(outcome(name, epoch), scheduler=scheduler), 10))
                return

    @precondition(lambda self: self.record.task.locked_by is not None)
    @rule()
    def hand_back(self) -> None:
        """Let the Scheduler let go of a task that only waits."""
        self._tell(HandedBack(epoch=self.record.task.epoch, scheduler=self._rightful()))

    @precondition(lambda self: self.record.task.locked_by is not None)
    @rule()
    def put_off(self) -> None:
        """Let the Scheduler find no place for what is ready."""
        not_before = self.now + timedelta(seconds=2)
        start_by = not_before + timedelta(seconds=10)
        epoch, scheduler = self.record.task.epoch, self._rightful()
        self._tell(PutOff(epoch=epoch, scheduler=scheduler, not_before=not_before, start_by=start_by))

    @precondition(lambda self: self.record.task.locked_by is not None)
    @rule()
    def end_waits(self) -> None:
        """Let the Scheduler find that a wait is over."""
        start_by = self.now + timedelta(seconds=10)
        self._tell(WaitsEnded(epoch=self.record.task.epoch, scheduler=self._rightful(), start_by=start_by))

    @rule(body=st.sampled_from([b'{"approved":true}', b'{"approved":false}']))
    def receive(self, body: bytes) -> None:
        """Let somebody approve, or not, at any time."""
        start_by = self.now + timedelta(seconds=10)
        self.known_late |= self.record.task.process_state is ProcessState.ERROR
        self._tell(EventReceived(step=StepName("approve"), body=body, who="anna", start_by=start_by))

    @rule()
    def turn_away(self) -> None:
        """Let somebody try to approve where the version is not deployed."""
        self._tell(TurnedAway(step=StepName("approve")))

    @rule(state=st.sampled_from([StepState.COMPLETED, StepState.FAILED, StepState.UNRECORDED]))
    def child_ends(self, state: StepState) -> None:
        """Let the task that is a step be done or undone, at any time, also against what was told before."""
        start_by = self.now + timedelta(seconds=10)
        result = b"{}" if state is StepState.COMPLETED else None
        self.known_late |= self.record.task.process_state is ProcessState.ERROR
        part = StepName("part")
        self._tell(
            ChildEnded(birth=BIRTH, step=part, state=state, result=result, error="", start_by=start_by)
        )

    @precondition(lambda self: self._under_way())
    @rule(outcome=st.sampled_from([completed, failed]), choice=st.integers(0, 3))
    def reply(self, outcome: Callable[..., StepCompleted | StepFailed], choice: int) -> None:
        """Let the Agent of a step that is under way say what came of it."""
        steps = self._under_way()
        said = outcome(steps[choice % len(steps)], self.record.task.epoch)
        self._tell(self._timed(replace(said, scheduler=self._rightful()), 10))

    @precondition(lambda self: self._under_way())
    @rule(choice=st.integers(0, 3), again=st.booleans())
    def not_take(self, choice: int, again: bool) -> None:  # noqa: FBT001 - Hypothesis draws it
        """Let the Agent of a step that is under way say that it did not begin it, maybe twice."""
        steps, epoch, scheduler = self._under_way(), self.record.task.epoch, self._rightful()
        step = self.record.step(steps[choice % len(steps)])
        said = StepNotTaken(
            epoch=epoch, scheduler=scheduler, step=step.name, start_id=step.start_id, start_by=self.now
        )
        for _ in range(1 + again):
            self._tell(self._timed(said, 10))
        if step.name in ready_steps(self.record):
            number = f"{step.name}.{epoch}.again-{step.dispatch_of(None)}"
            self._tell(
                self._timed(replace(started(step.name, epoch, start_id=number), scheduler=scheduler), 16)
            )

    @rule(outcome=st.sampled_from([completed, failed, unrecorded]), behind=st.integers(0, 2))
    def say_late(self, outcome: Callable[..., StepOutcome], behind: int) -> None:
        """Let it become known what came of a start of what must not be repeated, at any time."""
        epoch = Epoch(max(1, self.record.task.epoch - behind))
        event = replace(outcome("right", epoch), start_id=started("right", epoch).start_id)
        self._tell(self._timed(event, 10))

    @rule(crowd=st.sampled_from([None, None, partial(more_time), partial(turn, in_crowd=True)]))
    def look(self, crowd: Callable[..., Eased] | None) -> None:
        """Let a Supervisor judge the task, alone or as one of many, and keep in mind what it will do."""
        judged = judge(self.record, self.now, POLICY)
        is_late = isinstance(judged, Recovered | GivenUp) and in_question(self.record) is None
        if crowd is not None and is_late and may_be_extended(self.record, POLICY):
            self.verdict = crowd(self.record, CROWD, self.now, POLICY)
        else:
            self.verdict = judged or self.verdict

    @precondition(lambda self: self.verdict is not None)
    @rule()
    def act(self) -> None:
        """Let a Supervisor do what it decided, perhaps long ago and not for the first time."""
        assert self.verdict is not None
        self._tell(self.verdict)

    @rule(behind=BEHIND)
    def release(self, behind: int) -> None:
        """Let a Supervisor find what the task waits for deployed, perhaps for the second time."""
        epoch = Epoch(max(1, self.record.task.epoch - behind))
        self._tell(Released(epoch=epoch, start_by=self.now + timedelta(seconds=10)))

    @rule(event=st.sampled_from([resubmission, undo_request, *ANSWERS, *DEEDS]), behind=BEHIND)
    def operate(self, event: Callable[[Epoch], OperatorEvent | ParkingEvent], behind: int) -> None:
        """Let an operator resubmit the task, undo or park it, answer for what is unknown, or skip a step."""
        self._tell(self._timed(event(Epoch(max(1, self.record.task.epoch - behind))), 10))

    @rule(by_operator=st.booleans())
    def cancel(self, by_operator: bool) -> None:  # noqa: FBT001 - Hypothesis draws it
        """Let its caller cancel the task, or an operator."""
        self._tell(self._timed(cancellation(by_operator=by_operator), 10))

    @rule(message=st.integers(1, 3))
    def lose(self, message: int) -> None:
        """Let a message about the task die, perhaps the same one again."""
        self._tell(MessageLost(queue="scheduler-requests", message_id=str(message), reason="too often"))

    @invariant()
    def only_so_many_items_would_run_at_once(self) -> None:
        """With those that are under way, if all that is ready is started."""
        items = [each for each in self._under_way() if step_of(each) == "call"]
        ready = [each for each in ready_steps(self.record) if step_of(each) == "call"]
        if self.record.task.direction is Direction.DO and ready:
            assert len(items) + len(ready) <= AT_ONCE

    def _rightful(self) -> SchedulerId:
        task = self.record.task
        return scheduler_id(TASK, task.epoch, task.run)

    def _under_way(self) -> list[StepName]:
        task = self.record.task
        states = {StepState.RUNNING, StepState.UNDOING}
        return [
            each.name
            for each in self.record.steps
            if each.state in states and each.epoch == task.epoch
            if not (each.shape.via.waits or each.was_not_taken)
        ]

    def _timed(self, event: SchedulerEvent | OperatorEvent | ParkingEvent | Cancelled, seconds: int) -> Event:
        time = self.now + timedelta(seconds=seconds)
        assert not isinstance(event, StepTried)
        if isinstance(event, Parked | HandedBack):
            return event
        if isinstance(event, StepStarted):
            return replace(event, complete_by=time)
        return replace(event, start_by=time)

    def _tell(self, event: Event) -> None:
        with suppress(IllegalTransitionError):
            outcome = apply(self.record, event, self.now)
            if not isinstance(outcome, Refused):
                check_change(self.record, outcome, event, self.now)
                self.known_late |= is_late(self.record, outcome, event)
                if outcome is not self.record and not is_late(self.record, outcome, event):
                    check_time(self.record, event, self.now)
                self._remember(self.record, outcome, event)
                self.record = outcome

    def _remember(self, before: TaskRecord, now: TaskRecord, event: Event) -> None:
        for old, new in zip(before.steps, now.steps, strict=True):
            if new.started_at != old.started_at:
                self.dispatched = [name for name in self.dispatched if name != new.name] + [new.name]
                self.once_only_begun += 0 if new.shape.idempotent else 1
        not_begun = isinstance(event, StepNotTaken) and not before.step(event.step).shape.idempotent
        if not_begun or isinstance(event, FoundNotDone) or any(is_refused(each) for each in before.steps):
            self.once_only_begun = 0
        assert self.once_only_begun <= 1


TestLifeOfATask = LifeOfATask.TestCase
TestLifeOfATask.settings = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
