"""Reports: a job is started, and its state is read until it is done, five times at most."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from functions.agents.agent_call import RefusedError
from functions.agents.http_agent import Call, HttpAgent, content_of, resource_of
from functions.workflow import Json, Results, Step, TimerStep, Workflow
from functions.workflows_next.registration import Registration

LOOKS = [f"look-{number}" for number in range(1, 6)]


class Report(BaseModel):
    """The subject of the report."""

    model_config = ConfigDict(extra="forbid")

    subject: str


class Job(BaseModel):
    """The state of the job."""

    done: bool
    look_at: AwareDatetime
    url: str | None = None


class LookingAgent(HttpAgent):
    """Reads the state of the job that the report's other Agent has started."""

    async def do(self, call: Call) -> Job:
        """Return the state. Raises `RefusedError` if the last look finds a job that is not done."""
        job = await self.read(resource_of(call), call, returns=Job)
        if content_of(call)["is_last"] and not job.done:
            raise RefusedError("the report is still not done")
        return job


def _report(report: Report, _results: Results) -> Json:
    return report.model_dump()


def _round(before: str, look: str) -> list[Step[Any] | TimerStep]:
    """Return the steps that wait until the job is worth another look, and look, unless it is done."""

    def is_running(_report: Report, results: Results) -> bool:
        return results[before] is not None and not results[before].done

    def until(_report: Report, results: Results) -> datetime:
        time: datetime = results[before].look_at
        return time

    def request(_report: Report, _results: Results) -> Json:
        return {"is_last": look == LOOKS[-1]}

    wait = TimerStep(f"before-{look}", needs=[before], when=is_running, until=until)
    state: Step[Any] = Step(
        look,
        agent="report-state",
        needs=[wait],
        when=is_running,
        request=request,
        result=Job,
        complete_within=20,
    )
    return [wait, state]


def _output(_report: Report, results: Results) -> Json:
    found = [results[step] for step in (START.name, *LOOKS)]
    return {"url": [job.url for job in found if job is not None][-1]}


START = Step("start", agent="report", request=_report, result=Job, complete_within=20, undo=True)

REPORTS = Workflow(
    "report",
    resource="reports",
    payload=Report,
    steps=[START, *(step for pair in pairwise([START.name, *LOOKS]) for step in _round(*pair))],
    on_failure="compensate",
    output=_output,
)

REGISTRATION = Registration(REPORTS, agents={"report-state": LookingAgent})
