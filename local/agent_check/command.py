"""`python -m local agent-check`: starts a broker and the Agent, runs the checks, and prints the report."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from functions.pattern.messages import requests_queue
from local.agent_check.agent import AgentProcesses
from local.agent_check.broker import OwnBroker
from local.agent_check.desk import Desk
from local.agent_check.kit import Kit
from local.agent_check.options import AgentCheckOptions
from local.agent_check.plan import carry_out, in_order, stages
from local.agent_check.report import show_progress, show_report
from local.agent_check.verdicts import BrokerGoneError, CheckVerdict, Finding
from local.platform import INTERRUPTED, until_stop_signal
from local.platform.watchdog import Watchdog

_KEPT = 0
_BROKEN = 1
_HINDERED = 2


async def agent_check(options: AgentCheckOptions) -> int:
    """Check an Agent. Returns 0 if it keeps every rule that was looked at, 1 if not.

    Returns 2 where a command that the kit was given failed, or the broker went away. Raises
    `StartRefusedError`.
    """
    logging.getLogger("azure").setLevel(logging.CRITICAL)  # the kit itself says what it meets
    return await until_stop_signal(_checked(options, Console()), _nothing, stopped=INTERRUPTED)


async def _checked(options: AgentCheckOptions, console: Console) -> int:
    findings: list[Finding] = []
    stages(options.only)  # refuses an unknown name before anything starts
    try:
        async with _kit(options) as kit, aclosing(carry_out(kit)) as found:
            async for finding in found:
                show_progress(finding, console)
                findings.append(finding)
    except asyncio.CancelledError:
        show_report(list(in_order(findings, options.only, "not run: stopped")), options, console)
        console.print("stopped")
        raise
    except BrokerGoneError as gone:
        show_report(list(in_order(findings, options.only, "not run: the broker went away")), options, console)
        console.print(Text(f"The broker went away. {gone}"), soft_wrap=True)
        return _HINDERED
    missing = "not run: the first check did not pass"
    show_report(list(in_order(findings, options.only, missing)), options, console)
    return _exit_code({each.verdict for each in findings})


def _exit_code(verdicts: set[CheckVerdict]) -> int:
    if CheckVerdict.FAILED in verdicts:
        return _BROKEN
    return _HINDERED if CheckVerdict.HINDERED in verdicts else _KEPT


@asynccontextmanager
async def _kit(options: AgentCheckOptions) -> AsyncIterator[Kit]:
    async with AsyncExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="agent-check-")))
        broker = None
        if options.connection is None:
            queue = requests_queue(options.agent)
            broker = await open_.enter_async_context(OwnBroker.running(queue, options.lock, folder))
        connection = options.connection or (broker.connection if broker else "")
        watchdog = await open_.enter_async_context(Watchdog.running())
        desk = await open_.enter_async_context(Desk.at(connection, options.agent, alone=broker is not None))
        agent = await open_.enter_async_context(
            AgentProcesses.running(
                options.run,
                options.processes,
                connection,
                watchdog,
                folder / "agent",
                has_replied=lambda: desk.heard_last > 0,
            )
        )
        yield Kit(options, desk, agent, broker, watchdog)


def _nothing() -> None:
    """Ctrl-C for the second time changes nothing: what runs is ended at once anyway."""
