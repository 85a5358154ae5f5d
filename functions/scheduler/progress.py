"""What crosses Durable history: an epoch of a task, a run of `run_steps`, and how the task stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from functions.pattern.identity import Epoch, scheduler_id
from functions.pattern.planning import awaited_replies, is_over
from functions.pattern.records import TaskRecord


class TaskEpoch(TypedDict):
    """Which epoch of which task."""

    task: str
    epoch: int


class SchedulerInput(TaskEpoch):
    """What a Scheduler instance runs; replies may come over queues for the steps `queued`."""

    queued: list[str]


class RunInput(TaskEpoch):
    """Which run of `run_steps` it is, from 1 on; one that is to `share` starts what it can, beside others."""

    number: int
    share: bool


class Progress(TypedDict):
    """How a task stands: `over` for its Scheduler, or how many more `runs` of `run_steps` it needs now.

    `awaited` are the steps whose replies are awaited, and until when each counts (UTC).
    """

    state: str
    over: bool
    runs: int
    awaited: Mapping[str, str]


#: Nothing is known of how the task stands: the Supervisor finds it by its complete-by time.
UNKNOWN = Progress(state="unknown", over=False, runs=0, awaited={})


def progress_of(record: TaskRecord, epoch: Epoch, *, ready: int, at_once: int) -> Progress:
    """Tell the Scheduler of `epoch` how the task stands; each run takes `at_once` of the `ready` steps."""
    state = record.task.process_state
    if is_over(record, epoch, scheduler_id(record.order.task, epoch)):
        return ended(state)
    awaited: dict[str, str] = {step: until.isoformat() for step, until in awaited_replies(record).items()}
    return Progress(state=state, over=False, runs=math.ceil(ready / at_once), awaited=awaited)


def ended(state: str) -> Progress:
    """Tell a Scheduler that it has nothing more to do with the task."""
    return Progress(state=state, over=True, runs=0, awaited={})
