"""One run of a task: start ready steps, call Agents, record each outcome with the starts that follow.

A run waits for its own calls only. `receivers.py` records replies, events, timers and ends of child tasks,
and another run starts the steps that become ready. A start belongs to the run that recorded its start id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from functions.agents.agent_call import Agent, Call, CallOutcome, call_of, carry_out, look_up
from functions.core.definition.workflow_definition import SECONDS_BEFORE_CALL, WorkflowRegistry
from functions.core.derive import pending_work
from functions.core.error_texts import error_text
from functions.core.json_values import UnfitValueError, bounded
from functions.core.plan import RunLimits, checked_result, plan
from functions.core.record import WAITING_TYPES, Direction, StepSpec, StepType, TaskRecord
from functions.core.task_events import Event, OutcomeKind, RequestsSent, RunStarted, StepEnded, StepStarted
from functions.messaging.agent_messages import AgentRequest
from functions.storage.gates import Gates, NoFreeSlotError
from functions.storage.table_contract import StorageError, UnwritableRowsError
from functions.storage.task_storage import Recorded, TaskStorage
from functions.telemetry.instruments import Field
from functions.telemetry.spans import run_span, step_span

_log = logging.getLogger(__name__)

#: The time after the warning of a failed attempt in which another failure has no warning.
_WARNINGS_APART = timedelta(minutes=1)
#: Seconds after the end of a run in which it records outcomes that count late.
_RECORD_SECONDS = 20
_LOST = CallOutcome(OutcomeKind.UNKNOWN, "not looked up")  # it counts as a lost look-up
_TOO_LATE = CallOutcome(OutcomeKind.NOT_BEGUN, "its deadline passed before its call could begin")
_CLOSED = CallOutcome(OutcomeKind.NOT_BEGUN, "its gate closed before a slot was free")
RUN_AGENTS_ACTIVITY = "run_agents"


def scheduler(context: Any) -> Generator[Any, str]:
    """Call the activity with the id of the run (`{task}.{epoch}.{run}`) until it returns "done".

    This is the Durable orchestrator of a run. Its history holds the id of the run, and "more" or "done" only.
    """
    while (yield context.call_activity(RUN_AGENTS_ACTIVITY, context.get_input())) == "more":
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs of tasks in this process. Times are UTC.

    `send_request` sends a request to the queue of the Agent that it names. A run has at most `steps_at_once`
    calls under way, which end within `run_seconds`; one that could last longer is among the first.
    """

    storage: TaskStorage
    registry: WorkflowRegistry
    agents: Mapping[str, Agent]
    gates: Gates
    send_request: Callable[[str, AgentRequest], Awaitable[None]]
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    run_seconds: float = 240
    steps_at_once: int = 16

    async def run_agents(self, run_id: str) -> str:
        """Carry out the run `{task}.{epoch}.{run}` until none of its calls is under way and no step is ready.

        Return "more" if it has work left, else "done". It raises nothing: the Supervisor recovers its task.
        """
        try:
            task, epoch, run = run_id.rsplit(".", 2)
            return "more" if await _Run(self, task, int(epoch), int(run)).complete() else "done"
        except Exception as fault:  # noqa: BLE001 - an activity raises nothing
            is_defect = not isinstance(fault, StorageError)
            _log.warning("run %s ends early: %s", run_id, fault, exc_info=is_defect)
        return "done"


def with_valid_result(record: TaskRecord, registry: WorkflowRegistry, event: StepEnded) -> StepEnded:
    """Return an outcome; one whose result the step's model rejects becomes done without result.

    Without the definition the result is recorded unchecked, and is checked when another step reads it.
    """
    if event.kind is not OutcomeKind.DONE or event.direction is Direction.UNDO:
        return event
    try:
        return replace(event, result=checked_result(record, registry, event.step, event.result))
    except UnfitValueError as error:
        return replace(event, kind=OutcomeKind.DONE_WITHOUT_RESULT, result=None, error=str(error))


async def record_outcome[R](change: Callable[[Event], Awaitable[R]], ended: StepEnded) -> R:
    """Record an outcome. A result that the table rejects counts as done without a usable result."""
    try:
        return await change(ended)
    except UnwritableRowsError as error:
        if ended.kind is not OutcomeKind.DONE:
            raise
        kind, text = OutcomeKind.DONE_WITHOUT_RESULT, bounded(str(error))
        return await change(replace(ended, kind=kind, result=None, error=text))


class _Run:
    """One activity of a run.

    `_planned` are the calls and look-ups that it may begin, by start id and deadline; `_begun` are those that
    it began. `_unsent` are the requests that it could not send. `_sent` has the requests that it sent, each
    with whether a later run might repeat it. It `_is_failing` once a request could not be sent, and it begins
    no further attempt once it `_yields` to another activity. `_calls` is the number of calls under way.
    """

    def __init__(self, runs: Runs, task: str, epoch: int, run: int) -> None:
        self._runs, self._task, self._epoch, self._run = runs, task, epoch, run
        self._began_at = runs.now()
        self._ends_at = self._began_at + timedelta(seconds=runs.run_seconds)
        self._records_until = self._ends_at + timedelta(seconds=_RECORD_SECONDS)
        self._planned, self._begun = set[tuple[Any, ...]](), set[tuple[Any, ...]]()
        self._sent, self._unsent = dict[str, bool](), set[str]()
        self._has_started, self._is_over, self._is_failing = False, False, False
        self._newest: TaskRecord | None = None
        self._group, self._yields, self._calls = asyncio.TaskGroup(), asyncio.Event(), 0

    async def complete(self) -> bool:
        """Run until no call is under way; return whether the run has work left. Raises `StorageError`."""
        started = RunStarted(epoch=self._epoch, run=self._run, send_by=self._records_until)
        changed = await self._change(started, self._ends_at)
        order = changed.record.order
        with run_span(order.task, order.workflow, self._epoch, order.traceparent):
            async with self._group:
                self._begin(changed.record, is_first=True)
                await self._runs.storage.announce(changed)
        must_record_sent = any(self._sent.values()) or bool(self._unsent)
        if self._is_over and not must_record_sent:
            return False
        newest = await self._runs.storage.cached(self._task)
        if newest is None:
            return False
        has_work = self._yields.is_set() or (self._has_started and bool(pending_work(newest)))
        has_more = newest.epoch == self._epoch and has_work
        if must_record_sent or (self._sent and has_more):
            sent = RequestsSent(start_ids=frozenset(self._sent), given_up=frozenset(self._unsent))
            await self._runs.storage.change(self._task, sent, until=self._records_until)
        return has_more

    async def _change(self, event: Event | None, until: datetime) -> Recorded:
        """Record an event together with the starts that follow. Raises `StorageError`.

        The calls begin before the announcement, which takes ten seconds if Service Bus is slow.
        """
        await self._runs.gates.refresh()
        change = partial(self._runs.storage.record, self._task, plan=self._plan, until=until)
        changed = await (record_outcome(change, event) if isinstance(event, StepEnded) else change(event))
        self._newest = changed.record if changed.record.epoch == self._epoch else None
        return changed

    def _plan(self, record: TaskRecord, now: datetime) -> list[Event]:
        """Plan inside of the transaction. A planned start is this run's if its id is on record later."""
        planned = plan(record, self._limits(record, now), self._runs.registry, now)
        starts = [event for event in planned if isinstance(event, StepStarted)]
        self._planned.update((event.start_id, event.complete_by) for event in starts)
        return [*planned, RequestsSent(start_ids=frozenset(self._sent))] if self._sent else planned

    def _limits(self, record: TaskRecord, now: datetime) -> RunLimits:
        """Return the limits of this run, with the room for calls and look-ups. Overdue ones have ended."""
        mine = [(spec, each) for spec, each in record.operations if each.run == self._run]
        ends = (each.under_way_until for spec, each in mine if spec.type is StepType.ACTIVITY)
        calls = max(self._calls, sum(end is not None and end > now for end in ends))
        return RunLimits(
            epoch=self._epoch,
            run=self._run,
            room=self._runs.steps_at_once - calls,
            ends_at=self._ends_at,
            new_id=self._runs.new_id,
            gate=self._runs.gates.of,
            has_begun=bool(self._begun) or now > self._began_at + timedelta(seconds=SECONDS_BEFORE_CALL),
            send_by=self._records_until,
        )

    def _begin(self, record: TaskRecord, *, is_first: bool = False) -> None:
        """Begin the calls and look-ups that this activity started, first also its run's unsent requests."""
        is_outdated = record.epoch != self._epoch
        if is_outdated or record.finished_at is not None:
            self._is_over = True
        if is_outdated:
            return
        starts = {start_id for start_id, _ in self._planned}
        for spec, operation in record.operations:
            until = operation.under_way_until
            key = (operation.start_id, until)
            if operation.start_id in starts:
                self._has_started = True
            is_unsent = is_first and operation.send_by is not None and operation.run == self._run
            is_next = spec.type not in WAITING_TYPES and key not in self._begun
            if until is not None and is_next and (is_unsent or key in self._planned):
                self._begun.add(key)
                if spec.type is StepType.ACTIVITY:
                    self._calls += 1
                call = call_of(record, spec, operation, until, self._runs.registry)
                self._group.create_task(self._work(record, spec, call))

    async def _work(self, record: TaskRecord, spec: StepSpec, call: Call) -> None:
        """Record the outcome of a call while it counts, and begin the next starts. Errors are logged."""
        try:
            with step_span(spec.step, spec.item, agent=spec.agent, direction=call.direction.value) as span:
                if spec.type is StepType.QUEUE:
                    await self._request(spec, call)
                    return
                outcome = await self._call(spec, call)
                span.set_attribute(Field.OUTCOME, outcome.kind.value)
            event: Event | None = None
            if outcome is not _LOST:
                event = with_valid_result(record, self._runs.registry, call.ended(outcome))
            until = call.complete_by
            if not call.idempotent or outcome.kind is OutcomeKind.NOT_BEGUN:
                until = self._records_until
            elif until <= self._runs.now():  # too late for its outcome, but another step may start
                event = None
                until = self._ends_at
            changed = await self._change(event, until)
            self._begin(changed.record)
            self._yield_if_blocked()
            await self._runs.storage.announce(changed)
        except Exception as fault:  # noqa: BLE001 - the Supervisor recovers the task
            is_defect = not isinstance(fault, StorageError)
            _log.warning("task %s: a step ends early: %s", self._task, fault, exc_info=is_defect)

    async def _call(self, spec: StepSpec, call: Call) -> CallOutcome:
        """Call the Agent of a step if its gate has a slot before half of the time is over; or look up."""
        agent, gates, now = self._runs.agents.get(spec.agent), self._runs.gates, self._runs.now()
        try:
            if agent is None or now >= call.complete_by:
                outcome = _TOO_LATE if agent else CallOutcome(OutcomeKind.NOT_BEGUN, "its Agent is not here")
                return _LOST if call.is_look_up else outcome
            before = gates.of(spec.gate)
            changed_at = None if before is None else before.changed_at
            async with gates.call(spec.gate, now + (call.complete_by - now) / 2):
                await gates.refresh()
                began_at, gate = self._runs.now(), gates.of(spec.gate)
                if began_at >= call.complete_by:
                    return _LOST if call.is_look_up else _TOO_LATE
                if call.is_look_up:
                    return await look_up(agent, call, began_at)
                if gate is not None:
                    is_unchanged = gate.changed_at == changed_at
                    if gate.blocks(is_released=is_unchanged):
                        return _CLOSED
                outcome = await carry_out(agent, call, began_at)
        except NoFreeSlotError as error:
            return _LOST if call.is_look_up else CallOutcome(OutcomeKind.NOT_BEGUN, str(error))
        else:
            await gates.report(spec.gate, outcome.kind, began_at)
            return outcome
        finally:
            self._calls -= 1

    async def _request(self, spec: StepSpec, call: Call) -> None:
        """Send a request to the queue of an Agent until its deadline, or until the run yields."""
        key = f"{call.start_id}.{call.epoch}.find" if call.is_look_up else call.start_id
        until = min(call.complete_by, self._ends_at)
        wait, warn_from = 1.0, self._runs.now()
        while (now := self._runs.now()) < until and not self._yields.is_set():
            try:
                async with asyncio.timeout((until - now).total_seconds()):
                    await self._runs.send_request(spec.agent, call.to_request())
            except Exception as fault:  # noqa: BLE001 - the client of a queue may raise anything
                now = self._runs.now()
                if now >= warn_from:
                    reason = error_text(fault)
                    _log.warning("task %s step %s: request is not sent: %s", call.task, call.step, reason)
                    warn_from = now + _WARNINGS_APART
                self._is_failing = True
                self._yield_if_blocked()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._yields.wait(), min(wait, (until - now).total_seconds()))
                wait = min(2 * wait, 30)
            else:
                self._sent[key] = call.complete_by > self._records_until or not call.idempotent
                return
        self._unsent.add(key)
        if self._runs.now() < call.complete_by:
            self._yields.set()

    def _yield_if_blocked(self) -> None:
        """End this activity early if only failing requests are under way."""
        record = self._newest
        if not self._is_failing or record is None:
            return
        is_free = self._limits(record, self._runs.now()).room == self._runs.steps_at_once
        if is_free and pending_work(record):
            self._yields.set()
