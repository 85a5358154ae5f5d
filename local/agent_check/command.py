"""`python -m local agent-check`: starts a broker and the Agent, runs the checks, and prints the report."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from functions.messaging.agent_messages import requests_queue
from local.agent_check.agent import AgentProcesses
from local.agent_check.broker import OwnBroker
from local.agent_check.desk import Desk
from local.agent_check.kit import Kit
from local.agent_check.options import AgentCheckOptions
from local.agent_check.plan import carry_out, in_order, stages
from local.agent_check.verdicts import BrokerGoneError, CheckResult, CheckVerdict
from local.platform import INTERRUPTED, until_stop_signal
from local.platform.folder import held
from local.platform.watchdog import Watchdog

_STYLES = {
    CheckVerdict.PASSED: "green",
    CheckVerdict.FAILED: "bold red",
    CheckVerdict.NOT_SEEN: "yellow",
    CheckVerdict.HINDERED: "bold yellow",
}
_BLIND = "Without --effects, effects were judged by the replies: the same key, the same result."


async def agent_check(options: AgentCheckOptions) -> int:
    """Check an Agent. Returns 0 if it keeps every rule that was looked at, 1 if not.

    Returns 2 where a command that the kit was given failed, or the broker went away. Raises
    `StartRefusedError`.
    """
    logging.getLogger("azure").setLevel(logging.CRITICAL)  # the kit itself says what it meets
    return await until_stop_signal(_checked(options, Console()), lambda: None, stopped=INTERRUPTED)


async def _checked(options: AgentCheckOptions, console: Console) -> int:
    findings: list[CheckResult] = []
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
        return 2
    missing = "not run: the first check did not pass"
    show_report(list(in_order(findings, options.only, missing)), options, console)
    return _exit_code({each.verdict for each in findings})


def _exit_code(verdicts: set[CheckVerdict]) -> int:
    if CheckVerdict.FAILED in verdicts:
        return 1
    return 2 if CheckVerdict.HINDERED in verdicts else 0


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
        agent = AgentProcesses(
            options.run,
            options.processes,
            connection,
            watchdog,
            await open_.enter_async_context(held(folder / "agent")),
            has_replied=lambda: desk.heard_last > 0,
        )
        open_.push_async_callback(agent.kill)
        agent.start()
        yield Kit(options, desk, agent, broker, watchdog)


def show_progress(finding: CheckResult, console: Console) -> None:
    """Print one line."""
    console.print(_verdict(finding), Text(finding.check))


def show_report(findings: Sequence[CheckResult], options: AgentCheckOptions, console: Console) -> None:
    """Print a table, or a line for each check where nobody looks at a terminal; and what it comes to."""
    title = f"The Agent {options.agent} (the rules: docs/agents.md)"
    if console.is_terminal:
        table = Table("verdict", "check", "what it proves, or what was seen", title=title)
        for finding in findings:
            table.add_row(_verdict(finding), Text(finding.check), Text(finding.words))
        console.print(table)
    else:
        lines = (f"{each.verdict:8}  {each.check}: {each.words}" for each in findings)
        console.print(Text("\n".join([title, *lines])), soft_wrap=True)
    counts = Counter(finding.verdict for finding in findings)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in CheckVerdict if counts[verdict])
    console.print(*([] if options.effects else [_BLIND]), total, sep="\n")


def _verdict(finding: CheckResult) -> Text:
    return Text(finding.verdict, style=_STYLES[finding.verdict])
