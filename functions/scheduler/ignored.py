"""Replies that count for nothing: which of them, and why."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime

from functions.pattern.agent_messages import AgentReply
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason


@dataclass(frozen=True, slots=True)
class Ignored:
    """Why a reply counts for nothing; it may be a forgery."""

    why: str
    may_be_forged: bool = False


NO_SUCH_TASK = Ignored("there is no such task")
NO_SUCH_STEP = Ignored("the task has no such step")
NO_SUCH_EPOCH = Ignored("its epoch has not begun")
_FORGED = Ignored("it carries another token than the request", may_be_forged=True)


def ignored(reply: AgentReply, record: TaskRecord, reason: RefusalReason, now: datetime) -> Ignored:
    """Say why a task refused what a reply says, and how late it is."""
    step, epoch = record.step(reply.step), record.task.epoch
    is_of_latest = step.epoch == reply.epoch
    same_token = hmac.compare_digest((step.token or "").encode(), reply.token.encode())
    if reason is RefusalReason.NOT_TAKEN:
        return Ignored(str(reason))
    if reason is RefusalReason.WRONG_TOKEN or (is_of_latest and not same_token):
        return _FORGED
    if reason is RefusalReason.STALE_EPOCH:
        return Ignored(f"it is of epoch {reply.epoch}, and the task is in epoch {epoch}")
    late = 0.0 if step.complete_by is None else (now - step.complete_by).total_seconds()
    if not is_of_latest or late <= 0:
        return Ignored(str(reason))
    return Ignored(
        f"it is late by {late:.1f} s" + ("" if reason is RefusalReason.LATE else f", and the task: {reason}")
    )
