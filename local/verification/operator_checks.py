"""The checks of what operators see; each returns what it saw, and raises why it failed."""

from __future__ import annotations

import asyncio
from datetime import datetime

from local.verification.scene import NotRunError, NotWorkingError, Scene

_LOOK_EVERY = 1.0
#: A look at a queue may fail once, as when its connection was lost.
_LOOKS = 2
#: The overview shows what it saw of queues for so long.
_REMEMBERED = 5.5


async def queues_answer(scene: Scene) -> str:
    """Look into each queue, as the console does."""
    for looks in range(1, _LOOKS + 1):
        queues = (await scene.read("/overview"))["queues"]
        silent = [each["queue"] for each in queues if each["waiting"] is None or each["dead"] is None]
        if not silent:
            return f"{len(queues)} queues answer"
        if looks < _LOOKS:
            await asyncio.sleep(_REMEMBERED)
    raise NotWorkingError(f"can't be looked into: {', '.join(silent)}")


async def pages_are_served(scene: Scene) -> str:
    """Load the console, and what it shows of the order."""
    if "<title>" not in await scene.read(""):
        raise NotWorkingError("GET api/ops: no page")
    if scene.processed is None:
        raise NotRunError("the console is served, but no order was processed to be shown there")
    task = await scene.read(f"/tasks/{scene.processed.id}")
    steps = ", ".join(f"{step['name']} {step['state']}" for step in task["steps"])
    return f"the console, and a task by {task['order']['submitter']}: {steps}"


async def supervisor_sweeps(scene: Scene) -> str:
    """Wait for a sweep that began after this check did, by the deployment's own clock."""
    overview = await scene.read("/overview")
    began = datetime.fromisoformat(overview["at"])
    try:
        async with asyncio.timeout(scene.patience):
            while not _swept_since(overview["sweep"], began):
                await asyncio.sleep(_LOOK_EVERY)
                overview = await scene.read("/overview")
    except TimeoutError:
        last = overview["sweep"]
        said = "no sweep was ever finished" if last is None else f"the last sweep ended {last['ended_at']}"
        raise NotWorkingError(f"{said}, none in {scene.patience:g} s: is the Supervisor on?") from None
    return f"a sweep ended {overview['sweep']['ended_at']}"


def _swept_since(heartbeat: dict[str, str] | None, began: datetime) -> bool:
    return heartbeat is not None and datetime.fromisoformat(heartbeat["ended_at"]) > began
