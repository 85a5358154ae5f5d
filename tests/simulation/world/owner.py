"""Which host a task belongs to: a crash ends all of a host's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar
from typing import Any, Protocol


class Owner(Protocol):
    """Whoever tasks belong to."""

    tasks: dict[asyncio.Task[Any], None]

    @property
    def is_up(self) -> bool:
        """Tell whether it has not crashed."""


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


def owned_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any],
    context: Context | None = None,
    **more: Any,
) -> asyncio.Task[Any]:
    """Make a task of whoever its context names, or makes it; one of a dead host ends at once."""
    owner = OWNER.get()
    if context is not None:
        owner = context.get(OWNER, owner)
        context.run(OWNER.set, owner)
    task = asyncio.Task(coroutine, loop=loop, context=context, **more)
    if owner is not None:
        owner.tasks[task] = None
        task.add_done_callback(lambda done: owner.tasks.pop(done, None))
        if not owner.is_up:
            task.cancel()
    return task
