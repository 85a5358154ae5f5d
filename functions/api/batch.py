"""Takes a batch of orders: each is checked, submitted and answered by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from functions.api.acceptance import ID_IS_TAKEN, Acceptance
from functions.api.drafts import Draft
from functions.api.models import BatchedAnswer, location_of
from functions.pattern.definition import Workflow
from functions.pattern.identity import TaskId
from functions.web.callers import Caller
from functions.web.problems import Problem, problem, problem_of

#: Orders of one batch that are looked up and submitted at one time; the queue's sender joins them.
_CONCURRENCY = 100

#: Seconds for which orders are checked before other requests can go on.
_TURN = 0.005


class BatchAcceptance:
    """Takes batches of one workflow's orders."""

    def __init__(self, workflow: Workflow, acceptance: Acceptance) -> None:
        self._workflow = workflow
        self._acceptance = acceptance

    async def take(self, orders: Sequence[Any], caller: Caller) -> list[BatchedAnswer]:
        """Submit the orders that can be, and answer each as if it had come by itself, one after another.

        So an id that comes twice is one order, and a second order under it is refused. One whose
        submission failed is named with its id, by which it is safe to repeat.
        """
        drafts = await self._drafts(orders, caller)
        firsts: dict[TaskId, Draft] = {}
        for draft in drafts:
            if isinstance(draft, Draft):
                firsts.setdefault(draft.message.task_id, draft)
        limit = asyncio.Semaphore(_CONCURRENCY)
        standing = await asyncio.gather(*(self._submit(draft, limit) for draft in firsts.values()))
        by_id = dict(zip(firsts, standing, strict=True))
        return [self._answer(index, draft, by_id) for index, draft in enumerate(drafts)]

    async def _drafts(self, orders: Sequence[Any], caller: Caller) -> list[Draft | Problem]:
        clock = asyncio.get_running_loop().time
        drafts: list[Draft | Problem] = []
        turn_ends = clock() + _TURN
        for order in orders:
            if clock() >= turn_ends:  # to refuse an order full of faults takes milliseconds
                await asyncio.sleep(0)
                turn_ends = clock() + _TURN
            drafts.append(self._draft(order, caller))
        return drafts

    def _draft(self, order: Any, caller: Caller) -> Draft | Problem:
        try:
            return self._acceptance.drafts.of_batch(self._workflow, order, caller)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one order, the others go on
            return problem_of(error, doing=f"checking one of a batch of {self._workflow.resource}")

    async def _submit(self, draft: Draft, limit: asyncio.Semaphore) -> str | Problem | None:
        """Do as `Acceptance.submit_unless_known` does, or tell why that can't be done."""
        try:
            async with limit:
                return await self._acceptance.submit_unless_known(draft)
        except Exception as error:  # noqa: BLE001 - whatever happens to one order, the others go on
            return problem_of(error, doing=f"task {draft.message.task_id}: submitting it in a batch")

    def _answer(
        self, index: int, draft: Draft | Problem, standing: Mapping[TaskId, str | Problem | None]
    ) -> BatchedAnswer:
        if isinstance(draft, Problem):
            return BatchedAnswer(index=index, status=draft.status, problem=draft)
        task = draft.message.task_id
        digest = standing[task]
        if isinstance(digest, Problem):
            return BatchedAnswer(index=index, status=digest.status, id=task, problem=digest)
        if digest != draft.message.digest:
            conflict = problem(HTTPStatus.CONFLICT, ID_IS_TAKEN)
            return BatchedAnswer(index=index, status=conflict.status, id=task, problem=conflict)
        location = location_of(self._workflow, task)
        return BatchedAnswer(index=index, status=HTTPStatus.ACCEPTED, id=task, location=location)
