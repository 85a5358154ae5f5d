"""Statements: a job of a few seconds is started, and its state is read until it is done."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, ConfigDict

from functions.agents.http_agent import Call, RestAgent, resource_of
from functions.workflow import Json, Results, Step, Workflow
from functions.workflows_next.registration import Registration

_SECONDS_BETWEEN = 0.5


class Statement(BaseModel):
    """The subject of the statement."""

    model_config = ConfigDict(extra="forbid")

    subject: str


class Job(BaseModel):
    """The state of the job."""

    done: bool
    url: str | None = None


class LoopingAgent(RestAgent):
    """Starts the job, and reads its state again and again."""

    async def do(self, call: Call) -> Json:
        """Return the job as soon as it is done."""
        job = await self.put(resource_of(call), call.request, call, returns=Job)
        while not job.done:
            await asyncio.sleep(_SECONDS_BETWEEN)
            job = await self.read(resource_of(call), call, returns=Job)
        return job.model_dump()


def _request(statement: Statement, _results: Results) -> Json:
    return statement.model_dump()


def _output(_statement: Statement, results: Results) -> Json:
    return {"url": results[STATEMENT].url}


STATEMENT = Step("statement", request=_request, result=Job, complete_within=5, undo=True)

STATEMENTS = Workflow(
    "statement",
    resource="statements",
    payload=Statement,
    steps=[STATEMENT],
    on_failure="compensate",
    on_exhausted="compensate",
    output=_output,
)

REGISTRATION = Registration(STATEMENTS, agents={"statement": LoopingAgent})
