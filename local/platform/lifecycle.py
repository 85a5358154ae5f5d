"""The running platform: starts the parts, watches them, and stops them whatever happens."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import NoReturn, Self

from local.platform.blueprint import Blueprint, platform_stages
from local.platform.folder import held
from local.platform.options import Addresses, PlatformOptions
from local.platform.parts import Part, PartFailedError, PartName, StartRefusedError
from local.platform.ports import claimed
from local.platform.process import PartProcess
from local.platform.readiness import unless, until_ready
from local.platform.watchdog import Watchdog


class Platform:
    """Azurite, broker and host on this machine, for the length of an `async with` block.

    ```python
    async with Platform(PlatformOptions(ports=ANY_PORTS, data=tmp_path)) as platform:
        await platform.kill(PartName.HOST)
        await platform.start(PartName.HOST)
    ```

    Entering raises `StartRefusedError` before anything is started (a port or the folder is in use), or
    `PartFailedError` with the part's last lines. `blueprint` defines the parts.
    """

    def __init__(self, options: PlatformOptions, blueprint: Blueprint = platform_stages) -> None:
        self._options = options
        self._blueprint = blueprint
        self._parts: dict[PartName, Part] = {}
        self._running: dict[PartName, PartProcess] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._failures = asyncio.Queue[PartFailedError]()
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if os.environ.get("WEBSITE_INSTANCE_ID"):
            raise StartRefusedError(
                "The local platform is for a developer's machine; WEBSITE_INSTANCE_ID says this is Azure."
            )
        async with AsyncExitStack() as resources:
            self._lock = await resources.enter_async_context(held(self._options.data))
            if self._options.in_memory_storage:  # the tasks of its messages and Durable instances are lost
                shutil.rmtree(self._options.state, ignore_errors=True)
            #: The parts' addresses; a part that is started again keeps its own.
            self.addresses = Addresses(resources.enter_context(claimed(self._options.ports)))
            stages = self._blueprint(self._options, self.addresses)
            self._parts = {part.name: part for stage in stages for part in stage}
            self._watchdog = await resources.enter_async_context(Watchdog.running())
            for stage in stages:
                resources.push_async_callback(self._stop_together, stage)
            await self.unless_a_part_fails(self._start_together())
            self._resources = resources.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._resources.__aexit__(kind, error, traceback)

    def pid(self, name: PartName) -> int:
        """Return the process id of a running part."""
        return self._running[name].pid

    async def start(self, name: PartName) -> None:
        """Start a part that is not running, on its ports and data, and wait until it is ready."""
        if name in self._running:
            raise ValueError(f"{name} is running already.")
        part = self._parts[name]
        # A part that this platform does not have runs elsewhere: nothing waits for it.
        waits = [
            option for other, options in part.after.items() if other in self._parts for option in options
        ]
        part = replace(part, command=(*part.command, *waits))
        if part.prepare is not None:
            await part.prepare()
        process = await PartProcess.start(part, self._watchdog, self._lock)
        self._running[name] = process
        await until_ready(process)
        watcher = asyncio.create_task(self._watch(process), name=f"watch {name}")
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def stop(self, name: PartName) -> None:
        """Stop a part gently."""
        await self._running[name].stop()
        del self._running[name]

    async def kill(self, name: PartName) -> None:
        """End a part with SIGKILL, like a crash.

        Raises `ValueError` for Azurite: it would lose what it has not saved, which Azure does not do.
        """
        if not self._parts[name].crash_safe:
            raise ValueError(f"{name} loses accepted data when it is killed; use stop().")
        await self._running[name].kill()
        del self._running[name]

    def pause(self, name: PartName) -> None:
        """Freeze a part, like a machine that hangs, until `resume`."""
        self._running[name].pause()

    def resume(self, name: PartName) -> None:
        """Let a paused part run again."""
        self._running[name].resume()

    async def run_until_failure(self) -> NoReturn:
        """Wait for ever; raises `PartFailedError` when a part ends that was not stopped."""
        failure = await self._failures.get()
        self._failures.put_nowait(failure)  # for the next caller
        raise failure

    async def unless_a_part_fails[Result](self, work: Awaitable[Result]) -> Result:
        """Return the result of `work`. Raises `PartFailedError` when a part ends first."""
        return await unless(self.run_until_failure(), work)

    async def _stop_together(self, stage: Sequence[Part]) -> None:
        await asyncio.gather(*(self.stop(part.name) for part in stage if part.name in self._running))

    async def _start_together(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name in self._parts:
                    group.create_task(self.start(name), name=f"start {name}")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _watch(self, process: PartProcess) -> None:
        code = await process.wait()
        if not process.stop_requested:
            self._failures.put_nowait(process.failure(f"ended with exit code {code}"))
