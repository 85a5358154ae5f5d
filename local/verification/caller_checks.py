"""The checks of what callers do; each returns what it saw, and raises why it failed."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from local.callers.cases import Case, Submission
from local.callers.client import SAMPLE_ORDER, ApiAnswer, OrderRefusedError, OrderState, UnknownResourceError
from local.callers.services import NoSampleServicesError
from local.verification.credentials import KEY
from local.verification.scene import NotRunError, NotWorkingError, Scene, explained

_BATCH = (Case.NEAR, Case.FAR)
_LOOK_EVERY = 0.5


async def is_healthy(scene: Scene) -> str:
    """Look whether the application and its state store answer."""
    health = await scene.orders.health()
    if health.status != HTTPStatus.OK:
        raise NotWorkingError(f"GET api/health: {health}")
    return "the application and its state store answer"


async def order_is_processed(scene: Scene) -> str:
    """Submit an order, and follow it to its end."""
    submission = _new(Case.ORDER)
    await _require(scene, submission)
    await scene.submit(submission)
    order = await scene.until_finished(submission)
    scene.processed = submission
    return f"{order.id} {order.state}, {order.seconds:.2f} s by its own clock"


async def same_again_changes_nothing(scene: Scene) -> str:
    """Submit the same order under the same id."""
    order = _processed(scene)
    before = await scene.orders.look_at(order.id)
    answer = await scene.orders.put("orders", order.id, order.body())
    if answer.status != HTTPStatus.ACCEPTED:
        raise NotWorkingError(f"PUT {order.id} again: {explained(answer, KEY)}")
    if await scene.orders.look_at(order.id) != before:
        raise NotWorkingError(f"{order.id} is another one than before")
    return "accepted, and the order is as it was"


async def other_content_is_refused(scene: Scene) -> str:
    """Submit another order under the same id."""
    order = _processed(scene)
    answer = await scene.orders.put("orders", order.id, SAMPLE_ORDER | {"customer": "C-0"})
    if answer.status != HTTPStatus.CONFLICT:
        raise NotWorkingError(f"PUT {order.id} with other content: {explained(answer, KEY)}")
    return "refused with 409"


async def delivery_is_undone(scene: Scene) -> str:
    """Submit a delivery whose last service refuses; what was done before is undone there."""
    submission = _new(Case.NO_DRONE)
    await _require(scene, submission)
    try:
        await scene.services.prepare(submission)
    except NoSampleServicesError:
        raise NotRunError("no sample services here, which could refuse") from None
    try:
        await scene.submit(submission)
        order = await scene.until_finished(submission)
    finally:
        left = await scene.services.what_stands(submission)  # this also ends the refusal
    if left is not None:
        raise NotWorkingError(f"{submission.id}: {left}")
    return f"{order.id} {order.state}, and nothing is left at the services"


async def batch_is_processed(scene: Scene) -> str:
    """Submit deliveries in one request."""
    batch = [_new(case) for case in _BATCH]
    await _require(scene, batch[0])
    scene.made += batch
    try:
        await scene.orders.submit_batch("deliveries", [each.in_batch() for each in batch])
    except OrderRefusedError as refusal:
        if refusal.status is not None and refusal.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            scene.made = [each for each in scene.made if each not in batch]
            raise NotWorkingError(explained(ApiAnswer(refusal.status, str(refusal)), KEY)) from None
        raise
    await asyncio.gather(*map(scene.until_finished, batch))
    return f"{len(batch)} deliveries {OrderState.PROCESSED}"


async def made_is_cancelled(scene: Scene) -> str:
    """Cancel what was made, and name what can't be."""
    if not scene.made:
        raise NotRunError("nothing was made")
    outcomes = await asyncio.gather(*(_cancelled(scene, each) for each in scene.made))
    left = [outcome for outcome in outcomes if outcome is not None]
    if left:
        raise NotWorkingError(f"left behind: {'; '.join(left)}")
    return f"{len(scene.made)} made, all of them undone"


async def _cancelled(scene: Scene, submission: Submission) -> str | None:
    """Cancel, and wait until all is undone; else return what is left, in words."""
    resource, name = submission.case.resource, f"{submission.case.resource}/{submission.id}"
    order = None
    try:
        async with asyncio.timeout(scene.patience):
            # What is on its queue yet can't be cancelled, and what is refused for now may be taken later.
            while True:
                order = await scene.orders.look_at(submission.id, resource)
                if order is not None and order.state in {OrderState.COMPENSATED, OrderState.REJECTED}:
                    return None
                answer = await scene.orders.cancel(resource, submission.id)
                if answer.status == HTTPStatus.CONFLICT:
                    return f"{name}, {answer.text}"
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError:
        seen = "was never recorded, and may come yet" if order is None else f"is {order.state}"
        return f"{name} {seen}"


def _new(case: Case) -> Submission:
    return Submission.new("verify", case)


def _processed(scene: Scene) -> Submission:
    if scene.processed is None:
        raise NotRunError("no order was processed")
    return scene.processed


async def _require(scene: Scene, submission: Submission) -> None:
    try:
        await scene.orders.require(submission.case.resource)
    except UnknownResourceError:
        raise NotRunError(f"no workflow serves {submission.case.resource} here") from None
