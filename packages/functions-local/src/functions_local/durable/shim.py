"""The Shim: determines which decisions of an orchestrator are new.

The SDK returns all actions since the start of the generation from every replay. Durable Task and the
extension's out-of-process shim match that list with history and assign each task its id, to find the new
actions. This is the same algorithm: ids are assigned in the order of the list, the events of history are
applied in order, and a decision that history does not confirm is new. Azure's peculiarities are kept: WhenAll
waits for all its children even after one has failed; an instance completes only when no activity and no timer
is open; after the last failed retry one more timer fires.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NoReturn, assert_never

from functions_local.durable.decisions import (
    Completed,
    Decision,
    Failed,
    Outcome,
    Restarted,
    RunActivity,
    SetTimer,
    Verdict,
)
from functions_local.durable.events import (
    Event,
    EventRaised,
    ExecutionCompleted,
    ExecutionResumed,
    ExecutionStarted,
    ExecutionSuspended,
    ExecutionTerminated,
    OrchestratorCompleted,
    OrchestratorStarted,
    OrdinaryEvent,
    TaskCompleted,
    TaskFailed,
    TaskScheduled,
    TimerCreated,
    TimerFired,
)
from functions_local.durable.protocol import Action, ActionType, InvalidStateError, OrchestratorState
from functions_local.times import from_text


class Future:
    """A result that completes or fails once. It has no value: only the SDK uses values."""

    __slots__ = ("_callbacks", "done", "failed")

    def __init__(self) -> None:
        self.done = False
        self.failed = False
        self._callbacks: list[Callable[[], None]] = []

    def settle(self, *, failed: bool = False) -> None:
        """Mark it done and run its callbacks. A second call changes nothing."""
        if self.done:
            return
        self.done, self.failed = True, failed
        for callback in self._callbacks:
            callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Run the callback when it is done, or at once if it already is."""
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)


type Steps = Generator[Future]


def drive(steps: Steps) -> None:
    """Run a generator up to the first future that is not done, and continue when it is."""
    for awaited in steps:
        if not awaited.done:
            awaited.when_done(partial(drive, steps))
            return


def settled() -> Future:
    """Return a future that is done."""
    future = Future()
    future.settle()
    return future


def when_count(children: Sequence[Future], needed: int) -> Future:
    """Return a future that is done when `needed` of the children are, failed ones included."""
    combined = Future()

    def check() -> None:
        if sum(child.done for child in children) >= needed:
            combined.settle()

    check()
    for child in children:
        child.when_done(check)
    return combined


_LONGEST_RETRY_DELAY = timedelta(days=6)


class NonDeterministicError(Exception):
    """The orchestrator contradicts its history."""


class NotSupportedError(Exception):
    """The orchestrator requested something that is not supported."""


def replay(state: OrchestratorState, history: Iterable[Event]) -> Verdict:
    """Match an orchestrator's state with the history it was replayed on. Raises InvalidStateError."""
    shim = Shim(state)
    try:
        for event in history:
            shim.feed(event)
    except NonDeterministicError as error:
        return Verdict(Failed(f"Non-Deterministic workflow detected: {error}"))
    except NotSupportedError as error:
        return Verdict(Failed(str(error)))
    return shim.verdict()


_UNSUPPORTED = {
    ActionType.CALL_SUB_ORCHESTRATOR: "Calling a sub-orchestrator",
    ActionType.CALL_SUB_ORCHESTRATOR_WITH_RETRY: "Calling a sub-orchestrator",
    ActionType.CALL_ENTITY: "Calling an entity",
    ActionType.CALL_HTTP: "call_http",
    ActionType.SIGNAL_ENTITY: "Signalling an entity",
    ActionType.SCHEDULED_SIGNAL_ENTITY: "Signalling an entity",
}


def _refuse(kind: ActionType) -> NoReturn:
    raise NotSupportedError(f"{_UNSUPPORTED[kind]} is not supported by the local host")


class Shim:
    """One replay of one orchestrator's actions against its history."""

    def __init__(self, state: OrchestratorState) -> None:
        self._state = state
        self._next_id = 0
        self._now: datetime | None = None
        self._open: dict[int, Future] = {}
        self._undecided: dict[int, Decision] = {}
        self._parked: dict[int, Decision] = {}
        self._waiting: dict[str, list[Future]] = {}
        self._unread: list[EventRaised] = []
        self._suspended = False
        self._held: list[OrdinaryEvent] = []
        self._next_input: str | None = None
        self._result: Completed | Failed | None = None

    def verdict(self) -> Verdict:
        """Return the result of the history so far."""
        return Verdict(self._outcome(), dict(sorted(self._undecided.items())), self._suspended)

    def _outcome(self) -> Outcome | None:
        if self._result is None or self._open or self._suspended:
            return None
        if self._next_input is not None and isinstance(self._result, Completed):
            return Restarted(self._next_input, tuple(self._unread))
        return self._result

    def feed(self, event: Event) -> None:
        """Apply the next event of history. Raises NonDeterministicError or NotSupportedError."""
        match event:
            case OrchestratorStarted():
                self._now = from_text(event.timestamp)
            case ExecutionResumed():
                self._resume()
            case ExecutionSuspended():
                self._suspend()
            case _ if self._suspended:
                self._held.append(event)
            case _:
                self._take(event)

    def _take(self, event: OrdinaryEvent) -> None:
        match event:
            case ExecutionStarted():
                drive(self._run())
            case TaskScheduled() | TimerCreated():
                self._confirm(event)
            case TaskCompleted() | TaskFailed():
                self._settle(event.task_scheduled_id, failed=isinstance(event, TaskFailed))
            case TimerFired():
                self._settle(event.timer_id)
            case EventRaised():
                self._raise_event(event)
            case ExecutionTerminated() | ExecutionCompleted() | OrchestratorCompleted():
                pass  # the end of an episode or instance changes no replay
            case _:
                assert_never(event)

    def _suspend(self) -> None:
        if not self._suspended:
            self._suspended = True
            self._parked, self._undecided = self._undecided, {}

    def _resume(self) -> None:
        if not self._suspended:
            return
        self._suspended = False
        self._undecided = {**self._parked, **self._undecided}
        held, self._held = self._held, []
        for event in held:
            self._take(event)

    def _confirm(self, event: TaskScheduled | TimerCreated) -> None:
        decision = self._undecided.pop(event.event_id, None)
        if decision is None:
            raise NonDeterministicError(
                f"a previous execution scheduled {event.kind.name} with sequence id {event.event_id}, "
                "but the current replay hasn't scheduled it (yet?)"
            )
        if not decision.agrees_with(event):
            raise NonDeterministicError(
                f"a previous execution scheduled {event} with sequence id {event.event_id}, "
                f"but the current replay scheduled {decision}"
            )

    def _settle(self, task_id: int, *, failed: bool = False) -> None:
        future = self._open.pop(task_id, None)
        if future is not None:
            future.settle(failed=failed)

    def _raise_event(self, event: EventRaised) -> None:
        waiting = self._waiting.get(event.name.lower())
        if waiting and self._next_input is None:
            waiting.pop().settle()  # the most recent waiter, as in Durable Task
        else:
            self._unread.append(event)

    def _run(self) -> Steps:
        """Carry out the actions in order, as far as history goes."""
        for action in self._state.actions:
            yield self._perform(action)
        if self._state.error is not None:
            self._result = Failed(self._state.error, raised=True)
        elif self._state.is_done:
            self._result = Completed(self._state.output)

    def _perform(self, action: Action) -> Future:
        try:
            return self._carry_out(action)
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            raise InvalidStateError(
                f"it requested an action that the local host cannot carry out ({error!r}): {action}"
            ) from error

    def _carry_out(self, action: Action) -> Future:
        kind = ActionType(action["actionType"])
        match kind:
            case ActionType.CALL_ACTIVITY:
                return self._decide(_activity_of(action))
            case ActionType.CALL_ACTIVITY_WITH_RETRY:
                outcome = Future()
                drive(self._retry(action, outcome))
                return outcome
            case ActionType.CONTINUE_AS_NEW:
                self._next_input = _text(action, "input")
                return settled()
            case ActionType.CREATE_TIMER:
                return self._timer(action)
            case ActionType.WAIT_FOR_EXTERNAL_EVENT:
                return self._wait_for_event(_text(action, "externalEventName"))
            case ActionType.WHEN_ANY | ActionType.WHEN_ALL:
                children = [self._perform(child) for child in action["compoundActions"]]
                return when_count(
                    children, min(1, len(children)) if kind is ActionType.WHEN_ANY else len(children)
                )
            case _:
                _refuse(kind)

    def _decide(self, decision: Decision) -> Future:
        task_id = self._next_id
        self._next_id += 1
        self._undecided[task_id] = decision
        future = self._open[task_id] = Future()
        return future

    def _timer(self, action: Action) -> Future:
        future = self._decide(SetTimer(from_text(_text(action, "fireAt"))))
        if action["isCanceled"]:
            self._settle(self._next_id - 1, failed=True)
        return future

    def _wait_for_event(self, name: str) -> Future:
        for index, event in enumerate(self._unread):
            if event.name.lower() == name.lower():
                del self._unread[index]
                return settled()
        future = Future()
        self._waiting.setdefault(name.lower(), []).append(future)
        return future

    def _retry(self, action: Action, outcome: Future) -> Steps:
        """Run an activity until it succeeds or has no attempt left: Durable Task retries, not the SDK."""
        options = action["retryOptions"]
        delay = min(timedelta(milliseconds=options["firstRetryIntervalInMilliseconds"]), _LONGEST_RETRY_DELAY)
        attempts_left = int(options["maxNumberOfAttempts"])
        while attempts_left:
            attempt = self._decide(_activity_of(action))
            yield attempt
            if not attempt.failed:
                outcome.settle()
                return
            attempts_left -= 1
            # One more timer, due at once, follows the last attempt; the SDK raises when it has fired.
            yield self._decide(SetTimer(self._started() + (delay if attempts_left else timedelta())))
        outcome.settle(failed=True)

    def _started(self) -> datetime:
        if self._now is None:
            raise NonDeterministicError("the history does not begin with OrchestratorStarted")
        return self._now


def _activity_of(action: Action) -> RunActivity:
    input_text = None if action.get("input") is None else _text(action, "input")
    return RunActivity(_text(action, "functionName"), input_text)


def _text(action: Action, key: str) -> str:
    value = action[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is not a text")
    return value
