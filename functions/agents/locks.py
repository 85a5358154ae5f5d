"""Whether a request that a crash interrupts comes again in time: when its lock on the queue expires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from functions.pattern.definition import Workflow
from functions.pattern.messages import requests_queue
from functions.pattern.states import Way

#: Of a step's time, one lock may pass until the request comes again; as much must be left for the work.
_LOCKS = 2


def lock_warnings(workflows: Iterable[Workflow], locks: Mapping[str, float]) -> Iterator[str]:
    """Name the steps that have too little time for a crash; `locks` are in seconds, by queue."""
    for workflow in workflows:
        for step in workflow.steps:
            queue = requests_queue(step.agent)
            if step.via is Way.QUEUE and queue in locks and step.complete_within < _LOCKS * locks[queue]:
                yield (
                    f"workflow '{workflow.name}': step '{step.name}': complete_within is"
                    f" {step.complete_within:g} seconds, less than twice the lock of '{queue}'"
                    f" ({locks[queue]:g} seconds): a request that a crash interrupts comes again too late"
                )
