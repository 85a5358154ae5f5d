"""One episode: an instance takes its messages, its orchestrator is replayed, new decisions are committed.

An episode is one transaction: it deletes messages from the inbox, appends events to history, schedules
activities and timers, and updates the status. No change takes effect before the commit.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from itertools import chain

from functions_local.durable.conclusion import Conclusion, conclude
from functions_local.durable.contract import EngineOptions, FunctionTable, Invoke, Raised
from functions_local.durable.decisions import Failed, Restarted, Terminated, Verdict
from functions_local.durable.dispatcher import TaskHub
from functions_local.durable.event_json import encode, to_json
from functions_local.durable.events import (
    Event,
    ExecutionStarted,
    ExecutionTerminated,
    OrchestratorStarted,
)
from functions_local.durable.instances import History, LiveInstance
from functions_local.durable.protocol import ContextWriter, InvalidStateError, OrchestratorState
from functions_local.durable.refusals import PayloadTooLargeError, check_custom_status
from functions_local.durable.shim import replay
from functions_local.durable.store import Changes, InstanceMessage
from functions_local.times import now_text

_log = logging.getLogger(__name__)


class EpisodeRunner:
    """Runs episodes for the dispatcher; calls `on_end` with the id of each instance that has ended."""

    def __init__(
        self,
        hub: TaskHub,
        functions: FunctionTable,
        invoke: Invoke,
        options: EngineOptions,
        on_end: Callable[[str], None],
    ) -> None:
        self._hub = hub
        self._functions = functions
        self._invoke = invoke
        self._contexts = ContextWriter(options)
        self._on_end = on_end

    async def run(self, instance: LiveInstance) -> None:
        """Run an episode with all pending messages. After an error in the host, they are pending again."""
        taken, instance.inbox = instance.inbox, []
        try:
            await self._run(instance, taken)
        except BaseException:
            instance.inbox = taken + instance.inbox
            raise

    async def _run(self, instance: LiveInstance, taken: Sequence[InstanceMessage]) -> None:
        accepted = self._accept(instance, taken)
        if not accepted:
            await self._hub.database.commit(Changes().take_messages(taken).statements, lambda: None)
            return
        history = self._hub.instances.history_of(instance)
        self._hub.figures["episodes_run"] += 1
        started = OrchestratorStarted()
        new = [started, *(message.event for message in accepted)]
        new_text = ",".join([encode(started), *(message.text for message in accepted)])
        verdict, custom_status = await self._judge(instance, history, new, new_text)
        changes = Changes().take_messages(taken)
        conclusion = conclude(instance, verdict, self._hub.dispatcher)
        if isinstance(verdict.outcome, Restarted) and not conclusion.status.is_terminal:
            await self._continue_as_new(instance, verdict.outcome, custom_status, changes)
            return
        text = ",".join([new_text, *map(encode, conclusion.events)])
        changes.add_episode(instance.id, len(history.episodes), text)
        changes.update_status(instance.id, conclusion.status, custom_status, conclusion.output, now_text())
        _write(changes, instance, conclusion, self._hub.dispatcher.place)

        def apply() -> None:
            history.append([*new, *conclusion.events], text)
            instance.custom_status = custom_status
            self._follow(instance, conclusion)

        await self._hub.database.commit(changes.statements, apply)

    def _accept(self, instance: LiveInstance, taken: Sequence[InstanceMessage]) -> list[InstanceMessage]:
        """Select the messages of this generation, the start first. `store` prevents duplicate results."""
        accepted = [message for message in taken if message.execution in {None, instance.execution}]
        accepted.sort(key=lambda message: not isinstance(message.event, ExecutionStarted))
        return accepted

    async def _judge(
        self, instance: LiveInstance, history: History, new: Sequence[Event], new_text: str
    ) -> tuple[Verdict, str | None]:
        """Replay the orchestrator; return the verdict and the custom status (JSON text)."""
        for event in new:
            if isinstance(event, ExecutionTerminated):
                return Verdict(Terminated(event.input)), instance.custom_status
        function = self._functions.get(instance.name)
        if function is None:
            return Verdict(Failed(unknown_orchestrator(instance.name), raised=True)), instance.custom_status
        context = self._contexts.write(instance.id, instance.input, history.episodes, new_text)
        outcome = await self._invoke(function.function, function.parameter, context)
        if isinstance(outcome, Raised):
            _log.error(
                "Orchestrator '%s' raised in instance %s:\n%s", instance.name, instance.id, outcome.stack
            )
        try:
            state = OrchestratorState.from_outcome(outcome)
            check_custom_status(state.custom_status)
            verdict = replay(state, chain(history.events, new))
        except (InvalidStateError, PayloadTooLargeError) as error:
            _log.error("Orchestrator '%s' of instance %s fails: %s", instance.name, instance.id, error)
            return Verdict(Failed(str(error), raised=True)), instance.custom_status
        return verdict, None if state.custom_status is None else to_json(state.custom_status)

    async def _continue_as_new(
        self, instance: LiveInstance, restart: Restarted, custom_status: str | None, changes: Changes
    ) -> None:
        """Commit an empty history, a new start, and the unread events."""
        execution, input_text = uuid.uuid4().hex, to_json(restart.input)
        start = execution_started(instance.id, execution, instance.name, instance.version, input_text)
        messages = [self._hub.dispatcher.message(instance.id, execution, start)]
        messages += [self._hub.dispatcher.message(instance.id, None, event) for event in restart.unread]
        changes.forget_generation(instance.id, instance.execution)
        changes.begin_generation(instance.id, execution, input_text, custom_status, now_text())
        for message in messages:
            changes.add_message(message)

        def apply() -> None:
            instance.custom_status = custom_status
            self._hub.instances.begin_generation(instance, execution, input_text)
            self._hub.dispatcher.deliver(messages)

        await self._hub.database.commit(changes.statements, apply)

    def _follow(self, instance: LiveInstance, conclusion: Conclusion) -> None:
        """Carry out the committed decisions."""
        self._hub.dispatcher.run_activities(conclusion.activities)
        self._hub.dispatcher.deliver(conclusion.timers)
        if conclusion.status.is_terminal:
            self._hub.figures[f"orchestrations_{conclusion.status.name.lower()}"] += 1
            self._hub.instances.end(instance.id)
            self._on_end(instance.id)


def _write(changes: Changes, instance: LiveInstance, conclusion: Conclusion, place: int) -> None:
    for activity in conclusion.activities:
        changes.add_activity(activity, place)
    for timer in conclusion.timers:
        changes.add_message(timer)
    if conclusion.status.is_terminal:
        changes.forget_messages(instance.id)


def execution_started(
    instance: str, execution: str, name: str, version: str, input_text: str | None
) -> ExecutionStarted:
    """Make the first message of a generation."""
    return ExecutionStarted(
        orchestration_instance={"InstanceId": instance, "ExecutionId": execution},
        name=name,
        version=version,
        input=input_text,
    )


def unknown_orchestrator(name: str) -> str:
    """Return the message for a name that is not an orchestrator of the app."""
    return f"The function '{name}' doesn't exist, is disabled, or is not an orchestrator function."
