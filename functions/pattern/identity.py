"""Names by which tasks, steps, attempts and effects are known everywhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NewType

from functions.pattern.states import Direction

TaskId = NewType("TaskId", str)
StepName = NewType("StepName", str)
Epoch = NewType("Epoch", int)
SchedulerId = NewType("SchedulerId", str)
EffectKey = NewType("EffectKey", str)
StartId = NewType("StartId", str)
Birth = NewType("Birth", str)
ResourceId = NewType("ResourceId", str)

#: What a task id may look like; it becomes part of table keys, message ids and URLs.
TASK_ID_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"

#: What begins the id of a task that is a step of another: no caller can take such an id.
CHILD_PREFIX = "c-"
_CHILD_DIGITS = 40

FIRST_EPOCH = Epoch(1)

_BIRTH_CHARACTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The task of which another is a step, or an item of one."""

    task: TaskId
    birth: Birth
    step: StepName


def scheduler_id(task: TaskId, epoch: Epoch, run: int | None = None) -> SchedulerId:
    """Name the Scheduler instance of a run, the first (None) by its epoch alone.

    A task id holds no dot, so the parts can't be confused.
    """
    return SchedulerId(f"{task}.{epoch}" if run is None else f"{task}.{epoch}.{run}")


def new_birth(new_id: str) -> Birth:
    """Give a task the mark that tells it from others that had, or will have, its id; `new_id` is random."""
    return Birth(new_id[:_BIRTH_CHARACTERS])


def resource_id(task: TaskId, birth: Birth) -> ResourceId:
    """Name what a task makes at remote services: another task's, even one with the same id, has another.

    A task id holds no dot, so the parts can't be confused.
    """
    return ResourceId(f"{task}.{birth}")


def child_id(parent: ResourceId, step: StepName) -> TaskId:
    """Name the task that is a step, or an item, of another: the same in every epoch of that one.

    Neither a task id nor a birth holds a slash, so the parts can't be confused.
    """
    digest = hashlib.sha256(f"{parent}/{step}".encode()).hexdigest()
    return TaskId(f"{CHILD_PREFIX}{digest[:_CHILD_DIGITS]}")


def is_child(task: TaskId) -> bool:
    """Tell whether a task is a step of another, by its id."""
    return task.startswith(CHILD_PREFIX)


def start_of(token: str) -> StartId:
    """Name the start of a step behind a queue by its request's token, which only the Agent gets to know."""
    return StartId(hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()[:32])


def item_name(step: StepName, item: int) -> StepName:
    """Name one item of a for-each step, from 0 on; a step's own name holds no dot."""
    return StepName(f"{step}.{item}")


def step_of(name: StepName) -> StepName:
    """Name the step that an item is of; a step's own name stays as it is."""
    return StepName(name.partition(".")[0])


def item_of(name: StepName) -> int | None:
    """Read an item's number out of its name; None of a step's own."""
    _, _, item = name.partition(".")
    return int(item) if item.isdecimal() else None


def effect_key(resource: ResourceId, step: StepName, direction: Direction) -> EffectKey:
    """Name an effect at a remote service: its idempotency key, the same in every epoch."""
    return EffectKey(f"{resource}/{step}/{direction}")


def resource_of(key: EffectKey) -> ResourceId:
    """Read whose effect it is out of the key: the task's, or of a for-each step, that of one item."""
    resource, _, rest = key.partition("/")
    item = item_of(StepName(rest.partition("/")[0]))
    return ResourceId(resource if item is None else f"{resource}.{item}")
