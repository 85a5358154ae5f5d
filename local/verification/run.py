"""Runs the checks one after the other, and keeps what each of them saw."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from aiohttp import ClientError

from local.callers.client import OrderRefusedError
from local.verification import caller_checks, operator_checks
from local.verification.scene import NotRunError, NotWorkingError, Scene

type Check = Callable[[Scene], Awaitable[str]]

#: In this order; the last one cleans up.
CHECKS: dict[str, Check] = {
    "health": caller_checks.is_healthy,
    "queues": operator_checks.queues_answer,
    "an order processed": caller_checks.order_is_processed,
    "the same again": caller_checks.same_again_changes_nothing,
    "other content under its id": caller_checks.other_content_is_refused,
    "a delivery undone": caller_checks.delivery_is_undone,
    "a batch": caller_checks.batch_is_processed,
    "operators' pages": operator_checks.pages_are_served,
    "the Supervisor": operator_checks.supervisor_sweeps,
    "cleaned up": caller_checks.made_is_cancelled,
}


class CheckMark(Enum):
    """What became of a check."""

    #: It saw what a working deployment shows.
    PASSED = "passed"
    #: It saw something else.
    FAILED = "failed"
    #: It has no sense here, or needs what failed before it.
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: its verdict, what was seen, and how many seconds it took."""

    check: str
    verdict: CheckMark
    seen: str
    seconds: float


async def verify(scene: Scene, tell: Callable[[CheckLine], None]) -> list[CheckLine]:
    """Run every check, whatever became of those before; `tell` each as it ends."""
    lines: list[CheckLine] = []
    for name, check in CHECKS.items():
        started = time.perf_counter()
        verdict, seen = await _outcome(check, scene)
        lines.append(CheckLine(name, verdict, seen, time.perf_counter() - started))
        tell(lines[-1])
    return lines


async def _outcome(check: Check, scene: Scene) -> tuple[CheckMark, str]:
    try:
        return CheckMark.PASSED, await check(scene)
    except NotRunError as reason:
        return CheckMark.NOT_RUN, str(reason)
    except (NotWorkingError, OrderRefusedError) as fault:
        return CheckMark.FAILED, str(fault)
    except (ClientError, TimeoutError, ValueError, KeyError) as fault:
        # An answer that is no JSON, or lacks something, is some other server's.
        return CheckMark.FAILED, f"{type(fault).__name__}: {fault}"
