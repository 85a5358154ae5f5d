"""Which checks run, in which order, and which at the same time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing

from local.agent_check.checks import crashes, keys, late, look_ups, throughout, undos, unreadable
from local.agent_check.kit import Kit
from local.agent_check.verdicts import (
    CheckFailedError,
    CheckResult,
    CheckVerdict,
    CommandFailedError,
    NotSeenError,
)
from local.platform import StartRefusedError

type Check = Callable[[Kit], Awaitable[None]]

#: The checks of a stage run side by side. Those that crash the Agent then wait for the locks together.
STAGES: tuple[tuple[Check, ...], ...] = (
    (keys.a_request,),
    (
        keys.the_same_request_once_more,
        keys.the_same_key_in_a_new_epoch,
        keys.what_is_sent_once_and_done_is_asked_again,
        undos.an_undo_twice,
        undos.an_undo_without_the_result,
        undos.an_undo_before_its_do,
        undos.a_do_and_its_undo_at_once,
        keys.another_task_of_the_same_id,
        keys.another_step_of_the_same_task,
        keys.another_item_of_the_same_step,
        late.taken_after_complete_by,
        late.a_known_outcome_is_told_late,
        late.a_recorded_refusal_is_sent_late,
        late.what_was_not_taken_is_never_begun,
        look_ups.a_look_up_of_what_was_done,
        look_ups.a_look_up_of_what_was_not_begun,
        look_ups.a_look_up_after_its_deadline,
        look_ups.a_fence_holds,
        unreadable.another_schema_version,
        unreadable.rubbish,
        unreadable.the_largest_request,
    ),
    (
        unreadable.an_unknown_field,
        unreadable.a_request_without_kind,
        unreadable.a_complete_by_on_a_whole_second,
    ),
    (keys.two_hundred_side_by_side,),
    (undos.many_undone_twice_at_once,),
    (late.a_timeout_is_no_refusal, late.ended_after_complete_by, late.sent_once_work_that_ends_late),
    (crashes.a_lock_is_renewed,),
    (
        crashes.what_is_sent_once_killed_at_work,
        crashes.killed_while_it_works,
        crashes.killed_before_it_settled,
        crashes.what_is_sent_once_killed_at_its_reply,
        crashes.the_ledger_outlives_the_agent,
    ),
    (crashes.the_broker_killed_and_back,),
    (throughout.replies_echo_their_requests, throughout.replies_fit_the_schema, throughout.it_stays_up),
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
    """Run the checks, and give each finding when it is there.

    Where the first check does not pass, the Agent is asked no more; its replies are looked at all the same.
    Raises `BrokerGoneError`.
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
    """Give the findings in the order of the plan; `missing` says why a check did not run."""
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
