"""One run of a task on a host of the search."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from functions.core.derive import look_ups, pending_work
from functions.core.plan import Runner, may_outlast, plan, with_valid_result
from functions.core.record import Operation, OperationState, StepSpec, StepType, TaskRecord
from functions.core.task_events import Event, OutcomeKind, RunStarted, StepEnded, outcome_of
from tests.core_search.host import RUN_SECONDS, Host, NoSuchTaskError, StoreError
from tests.core_search.services import Call, NotBegunError, RefusedError, UnusableError

#: Calls that one run has under way at most.
_STEPS_AT_ONCE = 3


class HostRun:
    """One run of a task: it starts steps, calls Agents, and records outcomes with further starts."""

    def __init__(self, host: Host, task: str, epoch: int, run: int) -> None:
        self._host, self._task, self._epoch, self._run = host, task, epoch, run
        self._ends_at = host.now() + timedelta(seconds=RUN_SECONDS)
        self._planned = set[str]()
        self._begun = set[str]()
        self._steps = asyncio.TaskGroup()

    async def to_its_end(self) -> str:
        """Run until no step of its own is under way; return "more" if it left work for lack of time."""
        try:
            newest = await self._change(RunStarted(epoch=self._epoch, run=self._run), self._ends_at)
            async with self._steps:
                for spec, operation in newest.operations():  # requests that may not have been sent
                    if operation.run == self._run and spec.type is StepType.QUEUE:
                        self._begin_step(newest, spec, operation)
                self._begin(newest)
            newest = await self._host.load(self._task)
        except (StoreError, NoSuchTaskError):
            return "done"
        is_left = newest.epoch == self._epoch and newest.run == self._run and pending_work(newest)
        return "more" if is_left else "done"

    async def _change(self, event: Event | None, until: datetime) -> TaskRecord:
        await self._host.gates.refresh()
        return (await self._host.change(self._task, event, steps=self._plan, until=until)).record

    def _plan(self, record: TaskRecord, now: datetime) -> list[Event]:
        calls = sum(
            operation.state is OperationState.RUNNING
            and operation.run == self._run
            and spec.type is StepType.ACTIVITY
            for spec, operation in record.operations()
        )
        runner = Runner(
            epoch=self._epoch,
            run=self._run,
            room=_STEPS_AT_ONCE - calls,
            ends_at=self._ends_at,
            new_id=self._new_start,
            gate=self._host.gates.view.get,
        )
        return plan(record, runner, self._host.registry, now)

    def _new_start(self) -> str:
        start = self._host.world.new_id()
        self._planned.add(start)
        return start

    def _begin(self, record: TaskRecord) -> None:
        if record.epoch != self._epoch:
            return
        for spec, operation in record.operations():
            if operation.start_id in self._planned:
                self._begin_step(record, spec, operation)
        for name in look_ups(record):
            operation, spec = record.do(name), record.order.by_name[name]
            key = f"{operation.start_id}/find"
            if key not in self._begun and not may_outlast(spec, self._ends_at, self._host.now()):
                self._begun.add(key)
                self._steps.create_task(self._find(record, spec, operation))

    def _begin_step(self, record: TaskRecord, spec: StepSpec, operation: Operation) -> None:
        start = operation.start_id or ""
        is_own = operation.state is OperationState.RUNNING and record.epoch == self._epoch
        has_agent = spec.type in {StepType.ACTIVITY, StepType.QUEUE}
        if not is_own or start in self._begun or not has_agent:
            return
        self._begun.add(start)
        call = call_of(record, spec, operation, operation.complete_by)
        work = self._call if spec.type is StepType.ACTIVITY else self._request
        self._steps.create_task(work(spec, call))

    async def _call(self, spec: StepSpec, call: Call) -> None:
        host, began_at = self._host, self._host.now()
        seconds, has_unanswered = (call.complete_by - began_at).total_seconds(), False
        try:
            async with asyncio.timeout(seconds):
                outcome, text = OutcomeKind.DONE, await host.world.call_agent(host, spec.agent, call)
        except RefusedError as error:
            outcome, text, has_unanswered = OutcomeKind.REFUSED, str(error), error.has_unanswered
        except NotBegunError as error:
            outcome, text = OutcomeKind.NOT_BEGUN, str(error)
        except UnusableError as error:
            outcome, text = OutcomeKind.DONE_WITHOUT_RESULT, str(error)
        except (ConnectionError, TimeoutError) as error:
            outcome, text = OutcomeKind.UNKNOWN, f"{type(error).__name__}: {error}"
        await host.gates.report(spec.gate, outcome, began_at)
        await self._record(call, outcome, text, spec, has_unanswered=has_unanswered)

    async def _find(self, record: TaskRecord, spec: StepSpec, operation: Operation) -> None:
        call = call_of(record, spec, operation, operation.find_by)
        try:
            until = min(call.complete_by, self._ends_at)
            async with asyncio.timeout((until - self._host.now()).total_seconds()):
                await self._host.cross("find")
                fences = spec.agent.startswith("f")
                finding, text = self._host.world.services.find(call, fences_starts=fences)
            outcome = outcome_of(finding, fences_starts=fences)
        except (ConnectionError, TimeoutError) as error:
            outcome, text = OutcomeKind.UNKNOWN, f"{type(error).__name__}: {error}"
        await self._record(call, outcome, text, spec)

    async def _record(
        self, call: Call, outcome: OutcomeKind, text: str, spec: StepSpec, *, has_unanswered: bool = False
    ) -> None:
        is_once = spec.must_not_repeat(call.direction)
        is_done = outcome is OutcomeKind.DONE
        ended = StepEnded(
            epoch=call.epoch,
            step=call.step,
            direction=call.direction,
            start_id=call.start_id,
            kind=outcome,
            result=text if is_done else None,
            error=None if is_done else text,
            has_unanswered=has_unanswered,
        )
        ended = with_valid_result(self._host.world.records[self._task], self._host.registry, ended)
        until = max(call.complete_by, self._ends_at) if is_once else call.complete_by
        try:
            self._begin(await self._change(ended, until))
        except (StoreError, NoSuchTaskError):
            return

    async def _request(self, spec: StepSpec, call: Call) -> None:
        host = self._host
        while host.now() < min(call.complete_by, self._ends_at):
            await host.cross("request")
            if not host.world.strikes("request not sent", 0.05):
                host.world.request(spec.agent, call)
                return
            await asyncio.sleep(1)


def call_of(record: TaskRecord, spec: StepSpec, operation: Operation, until: datetime | None) -> Call:
    """Return the call of the operation that is under way."""
    assert until is not None
    generation = record.step(spec.name).generation(record.direction)
    return Call(
        task=record.order.task,
        step=spec.name,
        direction=record.direction,
        effect_key=record.order.effect_key(spec.name, record.direction, generation),
        request=operation.request or "",
        complete_by=until,
        idempotent=not spec.must_not_repeat(record.direction),
        start_id=operation.start_id or "",
        epoch=record.epoch,
    )
