"""Whether a request that a crash interrupts comes again in time: when its lock on the queue expires."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import azure.functions as func

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.definition import Workflow
from functions.pattern.messages import requests_queue
from functions.pattern.states import Way

#: Of a step's time, one lock may pass until the request comes again; as much must be left for the work.
_LOCKS = 2

_log = logging.getLogger(__name__)


def lock_warnings(workflows: Iterable[Workflow], locks: Mapping[str, float]) -> Iterator[str]:
    """Name the steps that have too little time for a crash; `locks` are in seconds, by queue."""
    for workflow in workflows:
        for step in workflow.steps:
            queue = requests_queue(step.agent)
            if step.via is Way.QUEUE and queue in locks and step.complete_within < _LOCKS * locks[queue]:
                yield (
                    f"workflow '{workflow.name}': step '{step.name}': complete_within is"
                    f" {step.complete_within:g} seconds, {_too_short(queue, locks[queue])}"
                )


def _too_short(queue: str, lock: float) -> str:
    return (
        f"less than twice the lock of '{queue}' ({lock:g} seconds):"
        " a request that a crash interrupts comes again too late"
    )


@dataclass(frozen=True, slots=True)
class Lock:
    """When a message came to its queue, and until when it is locked (UTC)."""

    enqueued_at: datetime
    until: datetime

    @classmethod
    def of(cls, message: func.ServiceBusMessage) -> Lock | None:
        """Read it from a message; not every host tells it."""
        enqueued_at, until = message.enqueued_time_utc, message.locked_until
        if enqueued_at is None or until is None:
            return None
        return cls(*(each if each.tzinfo else each.replace(tzinfo=UTC) for each in (enqueued_at, until)))


class LockWatch:
    """Looks at the lock of an Agent's first request, and warns if it is too long."""

    def __init__(self, agent: str) -> None:
        self._queue = requests_queue(agent)
        self._looked = False

    def look(self, request: AgentRequest, now: datetime, lock: Lock | None) -> None:
        """Compare the time that a request was given with its lock."""
        if self._looked or lock is None:
            return
        self._looked = True
        given = (request.complete_by - lock.enqueued_at).total_seconds()
        locked = (lock.until - now).total_seconds()
        if given < _LOCKS * locked:
            text = "%s: a request has %.0f seconds, %s"
            _log.warning(text, self._queue, given, _too_short(self._queue, round(locked)))
