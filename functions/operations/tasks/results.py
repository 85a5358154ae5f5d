"""What operators give as the result of a step: checked as its Agent's would be, as it can't be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

from pydantic import ValidationError

from functions.pattern.cannot_start import CannotStart
from functions.pattern.completion import complete
from functions.pattern.definition import Json, Registry
from functions.pattern.errors import PermanentError
from functions.pattern.event_bodies import check_body
from functions.pattern.events import FoundDone
from functions.pattern.faults import first_fault
from functions.pattern.identity import StepName
from functions.pattern.inputs import needed
from functions.pattern.operator_events import ResultGiven
from functions.pattern.ports import Agent, ReadingAgent
from functions.pattern.readiness import Definitions, NotDeployedError, lack_of
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.requests import result_bytes
from functions.pattern.states import ProcessState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.transitions import apply
from functions.web.problems import FieldFault, ProblemError


class GivenResults:
    """Reads and checks results; `agents` are those that are known here, by name."""

    def __init__(self, registry: Registry, agents: Mapping[str, Agent]) -> None:
        self._registry = registry
        self._agents = agents

    def written(self, record: TaskRecord, step: StepRecord, result: Json) -> bytes:
        """Write a result as the step's Agent would have given it, if that Agent is known here.

        That of an event's step is as its event. Raises `ProblemError` 409 and 422.
        """
        agent = self._agents.get(step.shape.agent)
        try:
            written = result_bytes(agent.read(result) if isinstance(agent, ReadingAgent) else result)
        except PermanentError as unusable:
            raise _unusable(str(unusable)) from None
        if step.shape.via is Way.EVENT:
            self._check_event(record, step.name, written)
        return written

    def check(self, record: TaskRecord, event: FoundDone | ResultGiven, now: datetime) -> None:
        """Refuse a result of which what follows can't be made, or not here. Raises `ProblemError`.

        A step that gets no such result fails by itself: no other result would mend it.
        """
        after = apply(record, event, now)
        if isinstance(after, Refused):
            return
        if after.task.process_state is ProcessState.PROCESSED:
            self._check_answer(after)
            return
        claimed = replace(after, task=replace(after.task, process_state=ProcessState.PROCESSING))
        here = Definitions(self._registry, claimed)
        lack = here.lack_of_answer()
        given = record.step(event.step).shape.step
        for name in ready_steps(claimed):
            look = here.look_at(name)
            if not isinstance(look, CannotStart):
                continue
            if look.parks:
                lack = lack or look
            elif given in needed(claimed, name):
                raise _unusable(f"what follows can't be made of it: {look.reason}")
        if lack is not None:
            raise _answered_there(lack.reason)

    def _check_answer(self, record: TaskRecord) -> None:
        """Refuse a result of which the answer to the caller can't be made: it is not made again."""
        task = complete(self._registry, record).task
        if task.is_parked:
            raise _answered_there(task.last_error or "")
        if task.last_error is not None:
            raise _unusable(f"what follows can't be made of it: {task.last_error}")

    def _check_event(self, record: TaskRecord, step: StepName, written: bytes) -> None:
        try:
            check_body(Definitions(self._registry, record).event_model(step), written)
        except ValidationError as error:
            raise _unusable(": ".join(filter(None, first_fault(error)))) from None
        except NotDeployedError as lack:
            raise _answered_there(lack_of(lack).reason) from None


def _unusable(reason: str) -> ProblemError:
    fault = FieldFault(field="result", reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])


def _answered_there(reason: str) -> ProblemError:
    return ProblemError(HTTPStatus.CONFLICT, f"{reason}: answer where it is.")
