"""Takes a batch of orders: each is checked, submitted and answered by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from functions.api.acceptance import ID_IS_TAKEN, Acceptance, Draft
from functions.api.models import BatchedAnswer, location_of
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.store_ports import KnownOrder
from functions.web.callers import Caller
from functions.web.problems import Problem, problem, problem_of

#: Seconds for which orders are checked before other requests can go on.
_TURN_SECONDS = 0.005

#: What stands under an id: what is recorded, the batch's own order, why that can't be told, or nothing yet.
type _Standing = KnownOrder | Draft | Problem | None


class BatchAcceptance:
    """Takes batches of one workflow's orders."""

    def __init__(self, workflow: Workflow, acceptance: Acceptance) -> None:
        self._workflow = workflow
        self._acceptance = acceptance

    async def take(self, orders: Sequence[Any], caller: Caller) -> list[BatchedAnswer]:
        """Submit and answer each order as if it had come by itself; a repeated id is one order."""
        drafts = await self._drafts(orders, caller)
        firsts: dict[TaskId, Draft] = {}
        for draft in drafts:
            if isinstance(draft, Draft):
                firsts.setdefault(draft.message.task_id, draft)
        standing = await self._known(firsts.values())
        new = [draft for task, draft in firsts.items() if standing.get(task) is None]
        for draft, fault in zip(new, await self._acceptance.submit_all(new), strict=True):
            standing[draft.message.task_id] = draft if fault is None else _told(fault, draft)
        return [self._answer(index, draft, standing) for index, draft in enumerate(drafts)]

    async def _drafts(self, orders: Sequence[Any], caller: Caller) -> list[Draft | Problem]:
        clock = asyncio.get_running_loop().time
        drafts: list[Draft | Problem] = []
        turn_ends = clock()  # to parse the batch took a turn of its own
        for order in orders:
            if clock() >= turn_ends:  # to refuse an order full of faults takes milliseconds
                for _ in range(10):  # a short request takes several rounds of the event loop
                    await asyncio.sleep(0)
                turn_ends = clock() + _TURN_SECONDS
            drafts.append(self._draft(order, caller))
        return drafts

    def _draft(self, order: Any, caller: Caller) -> Draft | Problem:
        try:
            return self._acceptance.drafts.of_batch(self._workflow, order, caller)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one order, the others go on
            doing = f"checking one of a batch of {self._workflow.resource}"
            # A batch must not cause an answer many times its size.
            return problem_of(error, doing=doing, most_faults=10)

    async def _known(self, drafts: Collection[Draft]) -> dict[TaskId, _Standing]:
        limit = asyncio.Semaphore(100)
        named = [draft for draft in drafts if not draft.id_is_new]
        found = await asyncio.gather(*(self._look_up(draft, limit) for draft in named))
        return {draft.message.task_id: each for draft, each in zip(named, found, strict=True)}

    async def _look_up(self, draft: Draft, limit: asyncio.Semaphore) -> _Standing:
        try:
            async with limit:
                return await self._acceptance.known(draft)
        except Exception as error:  # noqa: BLE001 - whatever happens to one order, the others go on
            return _told(error, draft)

    def _answer(
        self, index: int, draft: Draft | Problem, standing: Mapping[TaskId, _Standing]
    ) -> BatchedAnswer:
        if isinstance(draft, Problem):
            return BatchedAnswer(index=index, status=draft.status, problem=draft)
        task = draft.message.task_id
        stands = standing[task]
        if isinstance(stands, Problem):
            return BatchedAnswer(index=index, status=stands.status, id=task, problem=stands)
        if not _is_same(draft, stands):
            conflict = problem(HTTPStatus.CONFLICT, ID_IS_TAKEN)
            return BatchedAnswer(index=index, status=conflict.status, id=task, problem=conflict)
        location = location_of(self._workflow, task)
        return BatchedAnswer(index=index, status=HTTPStatus.ACCEPTED, id=task, location=location)


def _is_same(draft: Draft, stands: KnownOrder | Draft | None) -> bool:
    if isinstance(stands, KnownOrder):
        return draft.is_same_as(stands)
    return stands is not None and draft.message.digest == stands.message.digest


def _told(fault: BaseException, draft: Draft) -> Problem:
    error = fault if isinstance(fault, Exception) else TransientError(f"interrupted: {type(fault).__name__}")
    return problem_of(error, doing=f"task {draft.message.task_id}: submitting it in a batch")
