"""What crosses Durable history: an epoch of a task, a run of `run_steps`, and how the task stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import NotRequired, TypedDict

from functions.pattern.identity import Epoch, SchedulerId
from functions.pattern.planning import awaited_replies, is_over, latest_dispatches
from functions.pattern.records import TaskRecord
from functions.pattern.waits import waits_end


class TaskEpoch(TypedDict):
    """Which epoch of which task."""

    task: str
    epoch: int
    #: Of the runs after an epoch's first.
    run: NotRequired[int]


class SchedulerInput(TaskEpoch):
    """What a Scheduler instance runs; replies may come over queues for the steps `queued`."""

    queued: list[str]


class RunInput(TaskEpoch):
    """Which run of `run_steps` it is, from 1 on; one that is to `share` starts what it can, beside others."""

    number: int
    share: bool


class Progress(TypedDict):
    """How a task stands: `over` for its Scheduler, or how many more `runs` of `run_steps` it needs now.

    `awaited` are the steps whose replies are awaited, and until when each counts (UTC). Those of which a
    request was not taken are dispatched once more in their epoch: which of its `dispatches` is the latest, or
    the next. At `again_at`, a wait ends that its Scheduler sits out.
    """

    state: str
    over: bool
    runs: int
    awaited: Mapping[str, str]
    dispatches: NotRequired[Mapping[str, int]]
    again_at: NotRequired[str]


#: Nothing is known of how the task stands: the Supervisor finds it by its complete-by time.
UNKNOWN = Progress(state="unknown", over=False, runs=0, awaited={})


def progress_of(
    record: TaskRecord,
    epoch: Epoch,
    scheduler: SchedulerId,
    *,
    ready: int,
    at_once: int,
    again_at: datetime | None = None,
) -> Progress:
    """Tell the Scheduler of `epoch` how the task stands; each run takes `at_once` of the `ready` steps.

    At `again_at`, steps that found no place try again.
    """
    state = record.task.process_state
    if is_over(record, epoch, scheduler):
        return ended(state)
    awaited: dict[str, str] = {step: until.isoformat() for step, until in awaited_replies(record).items()}
    progress = Progress(state=state, over=False, runs=math.ceil(ready / at_once), awaited=awaited)
    dispatches = latest_dispatches(record)
    if dispatches:
        progress["dispatches"] = dispatches
    times = [each for each in (waits_end(record), again_at) if each is not None]
    if times:
        progress["again_at"] = min(times).isoformat()
    return progress


def ended(state: str) -> Progress:
    """Tell a Scheduler that it has nothing more to do with the task."""
    return Progress(state=state, over=True, runs=0, awaited={})
