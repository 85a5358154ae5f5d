"""The orchestrator `scheduler`: starts runs of `run_steps`, takes replies, keeps time; and how it is started.

Activities read and write the task's rows. Durable history has ids, step names, times and a few figures only.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import azure.durable_functions as df

from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, StepName, TaskId, scheduler_id
from functions.scheduler.progress import UNKNOWN, Progress, RunInput, SchedulerInput, TaskEpoch

SCHEDULER = "scheduler"
RUN_STEPS_ACTIVITY = "run_steps"

#: A reply that was recorded in time may wake its Scheduler a moment after its complete-by.
_REPLY_ARRIVES_WITHIN = timedelta(seconds=5)

#: A run that finds by its own clock that a wait is not over yet is begun again after so long.
_CLOCKS_DIFFER = timedelta(seconds=1)

#: A run that could not tell how the task stands is begun again beside a long step, on which the task's
#: complete-by depends: after so long, twice as long each time, and at most.
_FIRST_REST, _LONGEST_REST = timedelta(minutes=1), timedelta(hours=1)
_MOST_DOUBLINGS = 6

#: The backends of Durable Functions bound a timer; beside a step that lasts longer, a run looks each day.
_LONGEST_TIMER = timedelta(days=1)

#: How the SDK (1.7) tells that an instance has ended, or is not known.
_HAS_ENDED = ("is gone", "No instance with ID")


def reply_event(step: str, epoch: int, dispatch: int = 1) -> str:
    """Name the event of a reply; a name used twice would give one wait the other's event."""
    return f"reply:{step}:{epoch}:{dispatch}"


def run_task(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
    """Run one epoch of a task; the instance's input is a `SchedulerInput`. Activities never raise.

    It ends when nothing runs, and no reply is awaited any more; it gives the last state that it heard of.
    """
    epoch = _RunningEpoch(context, context.get_input())
    while epoch.goes_on:
        finished = yield context.task_any(epoch.waiting)
        epoch.take(finished)
    return epoch.state


class _RunningEpoch:
    """The runs under way, the replies that may come, one timer for all of them, and one for the next wait.

    The host acts on what follows a `task_any` only when one of the tasks has ended that were new in it (SDK
    1.7: a second `task_any` leaves out what is waited for already). So each has a timer of its own beside
    what is older, and the timer is cancelled as soon as anything has ended: that counts as an end.
    """

    def __init__(self, context: df.DurableOrchestrationContext, given: SchedulerInput) -> None:
        self.state = UNKNOWN["state"]
        self._context = context
        self._of = TaskEpoch(task=given["task"], epoch=given["epoch"])
        if "run" in given:
            self._of["run"] = given["run"]
        #: By the events' names; those that were waited for once, whether they came or not.
        self._replies: dict[str, Any] = {}
        self._opened = set[str]()
        for step in given["queued"]:
            self._wait_for(reply_event(step, given["epoch"]))
        self._runs: list[Any] = []
        self._number = 0
        self._over = False
        self._awaited: dict[str, datetime] = {}
        self._timer: Any = None
        self._alarm: Any = None
        self._again_at: datetime | None = None
        self._lost = 0
        self._guard: Any = None
        self._known: list[Any] = []
        self._begin_run(share=False)

    @property
    def goes_on(self) -> bool:
        """Tell whether anything can still happen that this instance has to hear of."""
        return bool(self._runs) or bool(self._timers)

    @property
    def waiting(self) -> list[Any]:
        """Give all that is waited for."""
        guards = [] if self._guard is None else [self._guard]
        return [*self._runs, *self._replies.values(), *self._timers, *guards]

    @property
    def _timers(self) -> list[Any]:
        return [each for each in (self._timer, self._alarm) if each is not None]

    def take(self, finished: Any) -> None:
        """Take what has finished: a run, a reply, or the timer."""
        self._known = [each for each in (*self._runs, *self._replies.values()) if each is not finished]
        if finished is self._guard:
            self._guard = None
        elif finished is self._timer:
            self._timer = None
            self._awaited.clear()
        elif finished is self._alarm:
            self._alarm = self._again_at = None
            self._begin_run(share=True)
        else:
            self._remove(finished)
            self._go_on(_progress_of(finished))
        self._keep_time()
        self._keep_alarm()
        self._keep_guard()

    def _remove(self, finished: Any) -> None:
        if finished in self._runs:
            self._runs.remove(finished)
            return
        self._replies = {name: reply for name, reply in self._replies.items() if reply is not finished}
        self._awaited = {name: until for name, until in self._awaited.items() if name in self._replies}

    def _go_on(self, progress: Progress) -> None:
        self.state = progress["state"]
        self._over = self._over or progress["over"]
        if self._over:
            self._awaited.clear()
            self._again_at = None
            return
        dispatches = progress.get("dispatches", {})
        for step, number in dispatches.items():
            self._wait_for(reply_event(step, self._of["epoch"], number))
        for step, until in progress["awaited"].items():
            name = reply_event(step, self._of["epoch"], dispatches.get(step, 1))
            if name in self._replies:  # another run may not know yet of a reply that came
                self._awaited[name] = datetime.fromisoformat(until)
        if "again_at" in progress:
            self._look_at(datetime.fromisoformat(progress["again_at"]))
        if progress["state"] == UNKNOWN["state"]:
            self._look_again()
        for _ in range(progress["runs"]):
            self._begin_run(share=True)

    def _look_at(self, again_at: datetime) -> None:
        """Have a run look at the task; earlier, if one is to: what comes may be older than what is known."""
        self._again_at = min(self._again_at or again_at, again_at)

    def _look_again(self) -> None:
        """Have a run look at what a lost one left undone; where nothing is awaited, the Supervisor does.

        What other runs know of the next wait holds as long as one of them is under way.
        """
        if not self._awaited:
            self._again_at = self._again_at if self._runs else None
            return
        rest = min(_LONGEST_REST, _FIRST_REST * (1 << min(self._lost, _MOST_DOUBLINGS)))
        self._look_at(self._context.current_utc_datetime + rest)
        self._lost += 1

    def _keep_time(self) -> None:
        """Have one timer while replies are awaited, for the latest of them."""
        latest = max(self._awaited.values(), default=None)
        _cancel(self._timer)
        self._timer = None if latest is None else self._context.create_timer(latest + _REPLY_ARRIVES_WITHIN)

    def _keep_alarm(self) -> None:
        """Have a timer for the first end of a wait that is sat out: a run then goes on with the task."""
        _cancel(self._alarm)
        again_at = self._again_at
        self._alarm = None if again_at is None else self._context.create_timer(self._alarm_for(again_at))

    def _keep_guard(self) -> None:
        """Have a timer beside runs that begin while something older is waited for, if there is no other."""
        _cancel(self._guard)
        self._guard = None
        is_new = any(each not in self._known for each in self._runs)
        if is_new and self._known and not self._timers:
            self._guard = self._context.create_timer(self._context.current_utc_datetime + _LONGEST_TIMER)

    def _alarm_for(self, again_at: datetime) -> datetime:
        now: datetime = self._context.current_utc_datetime
        return max(min(again_at, now + _LONGEST_TIMER), now + _CLOCKS_DIFFER)

    def _begin_run(self, *, share: bool) -> None:
        self._number += 1
        wanted = RunInput(**self._of, number=self._number, share=share)
        self._runs.append(self._context.call_activity(RUN_STEPS_ACTIVITY, wanted))

    def _wait_for(self, name: str) -> None:
        """Wait for an event, once."""
        if name not in self._opened:
            self._opened.add(name)
            self._replies[name] = self._context.wait_for_external_event(name)


def _cancel(timer: Any) -> None:
    """Cancel a timer, which keeps the instance from ending."""
    if timer is not None and not timer.is_completed:
        timer.cancel()


def _progress_of(finished: Any) -> Progress:
    """Read what a run or a reply brought; a run that the host ended comes back as an exception."""
    # The SDK (1.7) hands an event's payload over as JSON text.
    brought: Any = json.loads(finished.result) if isinstance(finished.result, str) else finished.result
    return cast("Progress", brought) if isinstance(brought, dict) else UNKNOWN


class DurableSchedulers:
    """Starts and wakes instances through the Durable client of one invocation."""

    def __init__(self, client: df.DurableOrchestrationClient) -> None:
        self._client = client

    async def start(
        self, task: TaskId, epoch: Epoch, queued: Sequence[StepName], *, run: int | None = None
    ) -> None:
        """Start the Scheduler of this run. Raises `TransientError`.

        A second start is refused by the service, or makes an instance that takes up what the first has left.
        """
        instance = scheduler_id(task, epoch, run)
        given = SchedulerInput(task=task, epoch=epoch, queued=list(queued))
        if run is not None:
            given["run"] = run
        try:
            await self._client.start_new(SCHEDULER, instance, given)
        except Exception as error:  # the SDK raises nothing narrower
            if "already exists" not in str(error):
                raise TransientError(f"Durable Functions did not start {instance}") from error

    async def wake(
        self,
        task: TaskId,
        epoch: Epoch,
        step: StepName,
        progress: Mapping[str, Any],
        *,
        run: int | None = None,
        dispatch: int = 1,
    ) -> None:
        """Send the Scheduler what was brought; harmless when it has ended. Raises `TransientError`."""
        instance = scheduler_id(task, epoch, run)
        try:
            await self._client.raise_event(instance, reply_event(step, epoch, dispatch), progress)
        except Exception as error:  # as above
            if not any(text in str(error) for text in _HAS_ENDED):
                raise TransientError(f"Durable Functions did not wake {instance}") from error
