"""Names by which tasks, steps, attempts and effects are known everywhere."""

from __future__ import annotations

from typing import NewType

from functions.pattern.states import Direction

TaskId = NewType("TaskId", str)
StepName = NewType("StepName", str)
Epoch = NewType("Epoch", int)
SchedulerId = NewType("SchedulerId", str)
EffectKey = NewType("EffectKey", str)
StartId = NewType("StartId", str)

#: What a task id may look like; it becomes part of table keys, message ids and URLs.
TASK_ID_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"

FIRST_EPOCH = Epoch(1)


def scheduler_id(task: TaskId, epoch: Epoch) -> SchedulerId:
    """Name the Scheduler instance of one epoch; a task id holds no dot, so the parts can't be confused."""
    return SchedulerId(f"{task}.{epoch}")


def effect_key(task: TaskId, step: StepName, direction: Direction) -> EffectKey:
    """Name an effect at a remote service: its idempotency key, the same in every epoch."""
    return EffectKey(f"{task}/{step}/{direction}")
