"""The processes of the Agent that is checked; one that ends by itself is started again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from local.agent_check.verdicts import CommandFailedError
from local.platform.parts import Part, PartName, Readiness
from local.platform.process import PartProcess
from local.platform.watchdog import Watchdog

#: The setting in which an Agent finds its connection to Service Bus.
CONNECTION = "ServiceBusConnection"
#: As whoever keeps an Agent running does it.
_AGAIN_AFTER = 1.0
#: A shell's exit codes for what it may not run, and does not find.
_NOT_RUN = (126, 127)
#: So many ends before a reply to anything: the Agent can't start, and is not started again.
_MOST_STARTS = 6
#: What tells more than a stack below it.
_ERROR = re.compile(r"Error\b.*: ")


class AgentProcesses:
    """As many processes of the Agent as are asked for; `has_replied` returns whether it ever replied."""

    def __init__(
        self,
        run: str,
        count: int,
        connection: str,
        watchdog: Watchdog,
        lock: int,
        *,
        has_replied: Callable[[], bool],
    ) -> None:
        self._part = Part(
            name=PartName.AGENT,
            command=("/bin/sh", "-c", 'cd "$0" && eval "$1"', str(Path.cwd()), run),
            ready=Readiness(""),
            environment={CONNECTION: connection},
        )
        self._count = count
        self._watchdog = watchdog
        self._lock = lock
        self._has_replied = has_replied
        self._keepers: list[asyncio.Task[None]] = []
        #: How processes ended that nobody had ended.
        self.ended: list[str] = []
        #: What a shell says of a command that it can't run.
        self.not_run: str | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether its processes only ever end: counted, as a busy machine takes its time for each."""
        return len(self.ended) >= _MOST_STARTS and not self._has_replied()

    def start(self) -> None:
        """Start all processes."""
        self._keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]

    async def kill(self) -> None:
        """End all processes with SIGKILL, like a crash."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self._keepers = []

    def see_that_it_runs(self) -> None:
        """See that the command could be run. Raises `CommandFailedError`."""
        if self.not_run is not None:
            raise CommandFailedError(f"--run can't be run, {self.not_run}")

    async def _keep(self) -> None:
        while True:
            if not self.is_given_up:
                await self._run_once()
            await asyncio.sleep(_AGAIN_AFTER)

    async def _run_once(self) -> None:
        process = await PartProcess.start(self._part, self._watchdog, self._lock)
        try:
            code = await process.wait()
        finally:
            await process.kill()
        lines = list(process.last_lines)
        named = [line for line in lines if _ERROR.search(line)]  # it names the error; else the last line
        end = f"exit code {code}: {[*(named or lines or ['it printed nothing'])][-1]}"
        if code in _NOT_RUN:
            self.not_run = end
        self.ended.append(end)
