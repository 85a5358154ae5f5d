"""The simulated Durable engine: instances, the task hub, and its client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, assert_never, cast
from urllib.parse import unquote, urlsplit

import aiohttp

from functions_local.durable.contract import EngineOptions, Raised, Returned
from functions_local.durable.decisions import RunActivity, SetTimer, Verdict
from functions_local.durable.event_json import encode
from functions_local.durable.events import (
    Event,
    EventRaised,
    ExecutionStarted,
    OrchestratorCompleted,
    OrchestratorStarted,
    TaskCompleted,
    TaskFailed,
    TaskScheduled,
    TimerCreated,
    TimerFired,
)
from functions_local.durable.protocol import ContextWriter, OrchestratorState
from functions_local.durable.shim import replay
from functions_local.times import to_text
from tests.simulation.hosts.host import Host, Running
from tests.simulation.world.world import OWNER, AnswerLostFault, BusyFault, NotSentFault, Place, World

_CONTEXTS = ContextWriter(EngineOptions())


@dataclass(eq=False, slots=True)
class Orchestration:
    """An instance. One that is `stuck` gets no episode any more; nobody is told."""

    id: str
    name: str
    input: str
    inbox: list[Event]
    history: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    has_ended: bool = False
    is_busy: bool = False
    is_stuck: bool = False

    def context(self, new: Sequence[Event]) -> str:
        """Write what the orchestrator is given."""
        return _CONTEXTS.write(self.id, self.input, self.texts, ",".join(map(encode, new)))

    def judge(self, outcome: Returned | Raised, new: Sequence[Event]) -> Verdict:
        """Match what the orchestrator returned with its history."""
        return replay(OrchestratorState.from_outcome(outcome), [*self.history, *new])

    def record(self, new: Sequence[Event], verdict: Verdict, now: datetime) -> None:
        """Add an episode to the history."""
        text = to_text(now)
        decided = [_decided(task, decision, text) for task, decision in verdict.decisions.items()]
        events = [*new, *decided, OrchestratorCompleted(timestamp=text)]
        self.history += events
        self.texts.append(",".join(map(encode, events)))
        self.has_ended = verdict.outcome is not None


def started(now: datetime) -> Event:
    """Begin an episode."""
    return OrchestratorStarted(timestamp=to_text(now))


def _decided(task: int, decision: RunActivity | SetTimer, now: str) -> Event:
    match decision:
        case RunActivity():
            return TaskScheduled(event_id=task, name=decision.name, timestamp=now)
        case SetTimer():
            return TimerCreated(event_id=task, fire_at=to_text(decision.fire_at), timestamp=now)
        case _:
            assert_never(decision)


#: Seconds of one function, as `host.json` sets them, and until what a crash interrupted is run again: as soon
#: as a host is there, or when the message is visible again.
_LONGEST = 300
_AGAIN = (0.5, 60.0)


class TaskHub:
    """All orchestrations."""

    def __init__(self, world: World, running: Running) -> None:
        self._world = world
        self._running = running
        self.instances: dict[str, Orchestration] = {}
        #: The part of activities that are run a second time, though the first is under way.
        self.doubled = 0.0
        self._waiting: list[Callable[[Host], None]] = []
        running.on_start(self._started)

    def start(self, instance: str, name: str, input_text: str) -> bool:
        """Start an instance; False when one with this id has not ended."""
        there = self.instances.get(instance)
        if there is not None and not there.has_ended:
            return False
        event = ExecutionStarted(
            orchestration_instance={"InstanceId": instance, "ExecutionId": "1"},
            name=name,
            input=input_text,
            timestamp=self._now,
        )
        self.instances[instance] = made = Orchestration(instance, name, input_text, [event])
        self._wake(made)
        return True

    def raise_event(self, instance: str, name: str, payload: str) -> int:
        """Send an event; give HTTP's status."""
        there = self.instances.get(instance)
        if there is None:
            return 404
        if there.has_ended:
            return 410
        self._receive(there, EventRaised(name=name, input=payload, timestamp=self._now))
        return 202

    def forget(self, instance: str) -> bool:
        """Delete an instance with its history; tell whether it was there."""
        return self.instances.pop(instance, None) is not None

    @property
    def _now(self) -> str:
        return to_text(self._world.now)

    def _on_a_host(self, run: Callable[[Host], None]) -> None:
        """Run something on a host, or on the first that comes up."""
        host = self._running.any("hosts of durable")
        if host is None:
            self._waiting.append(run)
        else:
            run(host)

    def _started(self, host: Host) -> None:
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            run(host)

    def _receive(self, instance: Orchestration, event: Event) -> None:
        if self._is_there(instance):
            instance.inbox.append(event)
            self._wake(instance)

    def _is_there(self, instance: Orchestration) -> bool:
        """Tell whether it has not ended, and is not gone with its history."""
        return self.instances.get(instance.id) is instance and not instance.has_ended

    def _wake(self, instance: Orchestration) -> None:
        if instance.inbox and not instance.is_busy and not instance.is_stuck and self._is_there(instance):
            instance.is_busy = True
            self._on_a_host(partial(self._run_episode, instance))

    def _run_episode(self, instance: Orchestration, host: Host) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            instance.is_busy = False
            if task.cancelled() or task.exception() is not None:
                self._world.loop.call_later(self._again(), self._wake, instance)
            else:
                self._wake(instance)

        host.run(self._episode(instance, host)).add_done_callback(ended)

    async def _episode(self, instance: Orchestration, host: Host) -> None:
        """Run an episode with all messages that wait; nothing of it counts before the commit."""
        messages = list(instance.inbox)
        new = [started(self._world.now), *messages]
        outcome: Returned | Raised
        try:
            outcome = Returned(host.orchestrate(instance.name, instance.context(new)))
        except Exception as error:  # noqa: BLE001 - as the worker reports it
            outcome = Raised(f"{type(error).__name__}: {error}", "")
        verdict = instance.judge(outcome, new)
        commit = partial(self._commit, instance, messages, new, verdict)
        await host.seam(Place.DURABLE).carry_out(f"episode of {instance.id}", commit)

    def _commit(
        self,
        instance: Orchestration,
        messages: Sequence[Event],
        new: Sequence[Event],
        verdict: Verdict,
    ) -> None:
        if self.instances.get(instance.id) is not instance:
            return
        instance.inbox = instance.inbox[len(messages) :]
        instance.record(new, verdict, self._world.now)
        if instance.has_ended:
            self._world.tell("durable", f"{instance.id} ends: {verdict.outcome}")
        for task, decision in verdict.decisions.items():
            if isinstance(decision, RunActivity):
                self._schedule(instance, task, decision)
            elif isinstance(decision, SetTimer):
                fired = TimerFired(timer_id=task, fire_at=to_text(decision.fire_at), timestamp="")
                seconds = (decision.fire_at - self._world.now).total_seconds()
                self._world.loop.call_later(max(0.0, seconds), self._fire, instance, fired)

    def _fire(self, instance: Orchestration, fired: TimerFired) -> None:
        fired = TimerFired(timer_id=fired.timer_id, fire_at=fired.fire_at, timestamp=self._now)
        self._receive(instance, fired)

    def _schedule(self, instance: Orchestration, task: int, decision: RunActivity) -> None:
        run = partial(self._run_activity, instance, task, decision)
        self._on_a_host(run)
        chance = self._world.chance("doubled activities")
        if chance.random() < self.doubled:
            self._world.fault("activities run twice", "durable", f"{instance.id} #{task}")
            self._world.loop.call_later(chance.uniform(0, 30), self._on_a_host, run)

    def _run_activity(self, instance: Orchestration, task: int, decision: RunActivity, host: Host) -> None:
        def ended(done: asyncio.Task[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                run = partial(self._run_activity, instance, task, decision)
                self._world.loop.call_later(self._again(), self._on_a_host, run)

        host.run(self._activity(instance, task, decision, host)).add_done_callback(ended)

    async def _activity(self, instance: Orchestration, task: int, decision: RunActivity, host: Host) -> None:
        given = json.loads(decision.input or "null")
        self._world.tell(host.name, f"{decision.name} for {instance.id}, number {given['number']}")
        event: Callable[[str], Event]
        try:
            async with asyncio.timeout(_LONGEST):
                result = json.dumps(await host.call(decision.name, {"given": given}))
            event = partial(_completed, task, result)
        except Exception as error:  # noqa: BLE001 - whatever an activity raises goes to its orchestrator
            self._world.tell(host.name, f"{decision.name} for {instance.id} raised {error!r}")
            event = partial(_failed, task, repr(error))
        report = f"result of {decision.name} for {instance.id}"
        await host.seam(Place.DURABLE).carry_out(report, lambda: self._report(instance, task, event))

    def _report(self, instance: Orchestration, task: int, event: Callable[[str], Event]) -> None:
        """Take a result, the first one of each activity."""
        known = [*instance.history, *instance.inbox]
        if any(
            isinstance(each, TaskCompleted | TaskFailed) and each.task_scheduled_id == task for each in known
        ):
            return
        self._receive(instance, event(self._now))

    def _again(self) -> float:
        return self._world.chance("durable").choice(_AGAIN)


def _completed(task: int, result: str, now: str) -> Event:
    return TaskCompleted(task_scheduled_id=task, result=result, timestamp=now)


def _failed(task: int, reason: str, now: str) -> Event:
    return TaskFailed(task_scheduled_id=task, reason=reason, details=None, timestamp=now)


def body_of(given: Any) -> str:
    """Write a request's body as the hub keeps it."""
    return json.dumps(given, separators=(",", ":"))


class DurableRequests:
    """Carries out what clients ask for, and answers as the extension does."""

    def __init__(self, hub: TaskHub) -> None:
        self._hub = hub

    async def post(self, url: str, data: Any = None, *_: Any, **__: Any) -> list[Any]:
        """Start an instance, or raise an event."""
        parts = [unquote(part) for part in urlsplit(url).path.strip("/").split("/")]
        match parts:
            case ["orchestrators", name, instance]:
                return await self._send(f"start {instance}", lambda: self._start(instance, name, data))
            case ["instances", instance, "raiseEvent", event]:
                raised = lambda: [self._hub.raise_event(instance, event, body_of(data)), None]  # noqa: E731
                return await self._send(f"event {event} to {instance}", raised)
            case _:
                raise NotImplementedError(url)

    async def delete(self, url: str, *_: Any, **__: Any) -> list[Any]:
        """Purge an instance."""
        instance = unquote(urlsplit(url).path.rpartition("/")[2])
        return await self._send(f"purge {instance}", lambda: self._purge(instance))

    def _start(self, instance: str, name: str, data: Any) -> list[Any]:
        if self._hub.start(instance, name, body_of(data)):
            return [202, {"id": instance}]
        return [409, "An Orchestration instance with the status Running already exists."]

    def _purge(self, instance: str) -> list[Any]:
        return [200, {"instancesDeleted": 1}] if self._hub.forget(instance) else [404, None]

    @staticmethod
    async def _send(what: str, act: Callable[[], list[Any]]) -> list[Any]:
        host = cast("Host", OWNER.get())
        try:
            return await host.seam(Place.DURABLE).carry_out(what, act)
        except (NotSentFault, AnswerLostFault, BusyFault) as fault:
            raise aiohttp.ClientConnectionError(str(fault)) from fault
