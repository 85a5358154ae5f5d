"""The route by which a workflow's orders are submitted in batches."""

# ruff: noqa: I002 - FastAPI needs the body's model itself, which is made here and has no global name

from typing import Annotated, Any

from fastapi import APIRouter, Body

from functions.api.acceptance import Acceptance
from functions.api.batch import BatchAcceptance
from functions.api.examples import batch_example
from functions.api.submissions import batch_model
from functions.api.views import BatchAnswer
from functions.pattern.definition import Workflow
from functions.web.access import AdmittedCaller
from functions.web.caps import CallersAllowance
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems


def batch_path(workflow: Workflow) -> str:
    """Give the path to which batches of the workflow's orders are posted."""
    return f"/api/{workflow.resource}/batch"


def batch_routes(workflow: Workflow, acceptance: Acceptance) -> APIRouter:
    """Make the route for batches of the workflow's orders."""
    router = APIRouter(tags=[workflow.resource])
    batches = BatchAcceptance(workflow, acceptance)
    batch: Any = batch_model(workflow)

    @router.post(
        batch_path(workflow),
        response_model_exclude_none=True,
        responses=documented_answer(batch_example(workflow)) | documented_problems(400, 413, 415, 422),
    )
    async def submit_batch(
        body: Annotated[batch, Body()], caller: AdmittedCaller, allowance: CallersAllowance
    ) -> BatchAnswer:
        """Submit many orders at once; each gets its own answer, in the batch's order.

        The batch as a whole is answered with 200, whatever became of its orders: 202 would say that all of
        them are taken, and 207 is WebDAV's, with a body in XML. Each order's `status` is what it would have
        got by itself. One that was answered with 503 may be taken all the same; repeat it under its `id`.
        """
        allowance.spend(len(body.orders) - 1)  # the request itself has been paid for
        return BatchAnswer(results=await batches.take(body.orders, caller))

    return router
