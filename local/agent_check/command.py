"""`python -m local agent-check`: starts a broker and the Agent, runs the checks, and prints the report."""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from functions.messaging.queue_names import requests_queue
from local.agent_check.checks import effects, messages, outages
from local.agent_check.commands import AgentProcesses, CommandFailedError
from local.agent_check.kit import AgentCheckOptions, CheckFailedError, Kit, NotSeenError
from local.agent_check.queues import BrokerUnavailableError, Desk, OwnBroker
from local.platform import StartRefusedError
from local.platform.folder import held
from local.platform.watchdog import Watchdog

type Check = Callable[[Kit], Awaitable[None]]


class CheckVerdict(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "FAILED"
    #: The kit could not observe the Agent, and names the requirement.
    NOT_SEEN = "not seen"
    #: A command of the user failed.
    HINDERED = "hindered"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one check; `words` are its promise, or the observation that broke it."""

    check: str
    verdict: CheckVerdict
    words: str


#: The checks of a stage run side by side. Those that crash the Agent then wait for the locks together.
STAGES: tuple[tuple[Check, ...], ...] = (
    (effects.a_request,),
    (
        effects.the_same_request_once_more,
        effects.the_same_key_in_a_new_epoch,
        effects.what_is_sent_once_and_done_is_asked_again,
        effects.an_undo_twice,
        effects.an_undo_without_the_result,
        effects.an_undo_before_its_do,
        effects.a_do_and_its_undo_at_once,
        effects.another_task_of_the_same_id,
        effects.another_step_of_the_same_task,
        effects.another_item_of_the_same_step,
        outages.taken_after_complete_by,
        outages.a_recorded_outcome_is_sent_late,
        outages.a_recorded_refusal_is_sent_late,
        outages.what_was_not_taken_is_never_begun,
        messages.a_look_up_of_what_was_done,
        messages.a_look_up_of_what_was_not_begun,
        messages.a_look_up_after_its_deadline,
        messages.a_fence_holds,
        messages.another_schema_version,
        messages.rubbish,
        messages.the_largest_request,
    ),
    (
        messages.an_unknown_field,
        messages.a_request_without_kind,
        messages.a_complete_by_without_a_fraction,
    ),
    (effects.two_hundred_side_by_side,),
    (effects.many_undone_twice_at_once,),
    (outages.a_timeout_is_no_refusal, outages.ended_after_complete_by, outages.sent_once_work_that_ends_late),
    (outages.a_lock_is_renewed,),
    (
        outages.what_is_sent_once_killed_at_work,
        outages.killed_while_it_works,
        outages.killed_before_it_settled,
        outages.what_is_sent_once_killed_at_its_reply,
        outages.the_ledger_outlives_the_agent,
    ),
    (outages.the_broker_killed_and_back,),
    (messages.replies_echo_their_requests, messages.replies_fit_the_schema, messages.it_stays_up),
)


def name_of(check: Check) -> str:
    """Name a check as the report does."""
    return check.__name__.replace("_", " ")


def stages(only: Sequence[str]) -> list[list[Check]]:
    """Choose checks by their names, all if there are none. Raises `StartRefusedError` for an unknown one."""
    known = {name_of(check) for stage in STAGES for check in stage}
    if unknown := [name for name in only if name not in known]:
        raise StartRefusedError(f"There is no check '{unknown[0]}'; there are: {', '.join(sorted(known))}.")
    always = (*STAGES[0], *STAGES[-1])
    return [
        [check for check in stage if not only or check in always or name_of(check) in only]
        for stage in STAGES
    ]


async def carry_out(kit: Kit) -> AsyncGenerator[CheckResult]:
    """Run the checks, and yield each finding at once.

    After a failure of the first check, only the last stage runs, which examines the replies.
    Raises `BrokerUnavailableError`.
    """
    first, *others, last = stages(kit.options.only)
    goes_on = True
    for stage in [first, *others, last]:
        if not goes_on and stage is not last:
            continue
        async with aclosing(_side_by_side(stage, kit)) as found:
            async for finding in found:
                goes_on = goes_on and (stage is not first or finding.verdict is CheckVerdict.PASSED)
                yield finding


def in_order(findings: Sequence[CheckResult], only: Sequence[str], missing: str) -> Iterator[CheckResult]:
    """Return the findings in the order of the plan; `missing` is the reason of a check that did not run."""
    found = {finding.check: finding for finding in findings}
    for name in (name_of(check) for stage in stages(only) for check in stage):
        yield found.get(name, CheckResult(name, CheckVerdict.NOT_SEEN, missing))


async def _side_by_side(stage: Sequence[Check], kit: Kit) -> AsyncGenerator[CheckResult]:
    running = [asyncio.create_task(_find(check, kit)) for check in stage]
    try:
        for found in asyncio.as_completed(running):
            yield await found
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _find(check: Check, kit: Kit) -> CheckResult:
    name = name_of(check)
    promise = (check.__doc__ or "").strip()
    try:
        await check(kit)
    except CheckFailedError as fault:
        await kit.desk.find_queues()  # where the broker is gone, it was not the Agent's fault
        rule = re.search(r"\([^()]+\)(?=\.$)", promise)  # the place in `docs/agents.md` at the promise's end
        return CheckResult(name, CheckVerdict.FAILED, f"{fault} {rule[0] if rule else ''}".strip())
    except NotSeenError as reason:
        return CheckResult(name, CheckVerdict.NOT_SEEN, str(reason))
    except CommandFailedError as fault:
        return CheckResult(name, CheckVerdict.HINDERED, str(fault))
    return CheckResult(name, CheckVerdict.PASSED, promise)


_STYLES = {
    CheckVerdict.PASSED: "green",
    CheckVerdict.FAILED: "bold red",
    CheckVerdict.NOT_SEEN: "yellow",
    CheckVerdict.HINDERED: "bold yellow",
}
_BLIND = "Without --effects, effects were judged by the replies: the same key, the same result."


async def agent_check(options: AgentCheckOptions) -> int:
    """Check an Agent. Return 0 if it keeps every rule that was checked, 1 if not.

    Return 2 if a command of the user failed, or the broker is unreachable. Raises `StartRefusedError`.
    """
    logging.getLogger("azure").setLevel(logging.CRITICAL)  # the kit reports the faults itself
    console = Console()
    findings: list[CheckResult] = []
    stages(options.only)  # rejects an unknown name before anything starts
    try:
        async with _kit(options) as kit, aclosing(carry_out(kit)) as found:
            async for finding in found:
                console.print(_verdict(finding), Text(finding.check))
                findings.append(finding)
    except asyncio.CancelledError:
        show_report(list(in_order(findings, options.only, "not run: stopped")), options, console)
        console.print("stopped")
        raise
    except BrokerUnavailableError as gone:
        show_report(list(in_order(findings, options.only, "not run: the broker went away")), options, console)
        console.print(Text(f"The broker went away. {gone}"), soft_wrap=True)
        return 2
    missing = "not run: the first check did not pass"
    show_report(list(in_order(findings, options.only, missing)), options, console)
    verdicts = {each.verdict for each in findings}
    return 1 if CheckVerdict.FAILED in verdicts else 2 if CheckVerdict.HINDERED in verdicts else 0


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
            has_replied=lambda: desk.last_reply_at > 0,
        )
        open_.push_async_callback(agent.kill)
        agent.start()
        yield Kit(options, desk, agent, broker, watchdog)


def show_report(findings: Sequence[CheckResult], options: AgentCheckOptions, console: Console) -> None:
    """Print a table, or a line for each check without a terminal; and the totals."""
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
