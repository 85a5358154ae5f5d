"""Which checks run, in which order, and which at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from local.agent_check.checks import crashes, keys, late, outage, throughout, unreadable
from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError, Finding, NotSeenError, Verdict

type Check = Callable[[Kit], Awaitable[None]]

#: The checks of a stage run side by side. Those that crash the Agent then wait for the locks together.
STAGES: tuple[tuple[Check, ...], ...] = (
    (keys.a_request,),
    (
        keys.the_same_request_once_more,
        keys.the_same_key_in_a_new_epoch,
        keys.an_undo_twice,
        keys.an_undo_before_its_do,
        late.taken_after_complete_by,
        late.a_known_outcome_is_told_late,
        unreadable.another_schema_version,
        unreadable.rubbish,
        unreadable.the_largest_request,
    ),
    (unreadable.an_unknown_field,),
    (keys.two_hundred_side_by_side,),
    (late.ended_after_complete_by, late.what_is_sent_once_ended_after_complete_by),
    (
        crashes.killed_while_it_works,
        crashes.killed_before_it_settled,
        crashes.what_is_sent_once_killed_at_work,
        crashes.what_is_sent_once_killed_at_its_reply,
        crashes.the_ledger_outlives_the_agent,
    ),
    (outage.the_broker_killed_and_back,),
    (throughout.replies_echo_their_requests, throughout.replies_fit_the_schema, throughout.it_stays_up),
)


def name_of(check: Check) -> str:
    """Name a check as the report does."""
    return check.__name__.replace("_", " ")


async def carry_out(kit: Kit) -> AsyncIterator[Finding]:
    """Run the checks, and give each finding when it is there.

    An Agent that answers not even one request is asked no more; its replies are looked at all the same.
    """
    answers = True
    for stage in STAGES:
        if not answers and stage is not STAGES[-1]:
            continue
        for found in asyncio.as_completed([asyncio.create_task(_find(check, kit)) for check in stage]):
            finding = await found
            answers = answers and not (stage is STAGES[0] and finding.verdict is Verdict.FAILED)
            yield finding


def in_order(findings: list[Finding]) -> Iterator[Finding]:
    """Give the findings in the order of the plan; a check that did not run was not seen."""
    found = {finding.check: finding for finding in findings}
    for stage in STAGES:
        for check in stage:
            name = name_of(check)
            yield found.get(name, Finding(name, Verdict.NOT_SEEN, "not run: a request is not answered"))


async def _find(check: Check, kit: Kit) -> Finding:
    name = name_of(check)
    promise = (check.__doc__ or "").strip()
    try:
        await check(kit)
    except CheckFailedError as fault:
        return Finding(name, Verdict.FAILED, str(fault))
    except NotSeenError as reason:
        return Finding(name, Verdict.NOT_SEEN, str(reason))
    return Finding(name, Verdict.PASSED, promise)
