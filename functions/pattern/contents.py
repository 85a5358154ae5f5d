"""What a task holds, without what its models mark as secret: payload, requests, results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from functions.pattern.definition import Registry, Workflow
from functions.pattern.events import (
    Event,
    Parked,
    StepBroken,
    StepFailed,
    StepTried,
    StepUnknown,
    StepUnrecorded,
)
from functions.pattern.identity import StepName, step_of
from functions.pattern.readiness import Definitions, NotDeployedError
from functions.pattern.records import TaskRecord
from functions.pattern.requests import request_bytes
from functions.pattern.secret_fields import HIDDEN, SecretFields, Secrets, Shown, secret_fields
from functions.pattern.states import Direction, Way
from functions.pattern.texts import cause_of
from functions.pattern.wait_events import ChildEnded

#: Secrets that are looked for in requests and results at most.
_MOST_SECRETS = 200


class NotShownError(Exception):
    """Something can't be shown; the text says why."""


@dataclass(frozen=True)
class Contents:
    """What is deployed here of one task's workflow, asked what may be shown of the task."""

    registry: Registry
    record: TaskRecord

    @property
    def payload(self) -> Any:
        """Give the payload. Raises `NotShownError`."""
        return self._payload.content

    def request(self, step: StepName, direction: Direction) -> Any:
        """Make a step's request once more. Raises `NotShownError`, with what its function raises."""
        made = self._request(step, direction)
        if self.record.step(step).shape.via is Way.WORKFLOW:
            made = self._of_child(step, made).content
        return self.secrets.without(made)

    def result(self, step: StepName) -> Any:
        """Give a step's result, None without any. Raises `NotShownError`."""
        recorded = self.record.step(step)
        if recorded.result is None:
            return None
        content = json.loads(recorded.result)
        if recorded.shape.via is Way.WORKFLOW:
            made = self._request(step, Direction.DO)
            content = self._of_child(step, made).secrets.without(content)
        model = self._event_model(step)
        return self.secrets.without(content if model is None else fields_of(model).hide(content).content)

    def _request(self, step: StepName, direction: Direction) -> Any:
        task = replace(self.record.task, direction=direction)
        secrets = self.secrets
        try:
            made = Definitions(self.registry, replace(self.record, task=task)).request(step)
        except NotDeployedError as lack:
            raise NotShownError(secrets.without(str(lack))) from None
        except Exception as fault:  # noqa: BLE001 - whatever a definition's function raises
            raise NotShownError(f"it can't be made: {secrets.without(cause_of(fault))}") from None
        return json.loads(request_bytes(made))

    def _of_child(self, step: StepName, made: Any) -> Shown:
        """Read the payload of the task that is a step as its own model does."""
        return fields_of(Definitions(self.registry, self.record).child_workflow(step).payload).hide(made)

    def without_secrets(self, text: str) -> str:
        """Give a text without the secrets that are known here, such as what a service answered."""
        try:
            shown: str = self.secrets.without(text)
        except NotShownError:
            order = self.record.order
            return text if self.registry.find(order.workflow, order.workflow_version) is None else HIDDEN
        return shown

    @cached_property
    def _payload(self) -> Shown:
        return fields_of(self._workflow.payload).hide(json.loads(self.record.order.payload))

    @cached_property
    def secrets(self) -> Secrets:
        """Give what is secret in the payload, and in the events that came. Raises `NotShownError`."""
        found = self._payload.secrets.values.union(*(each.values for each in self._of_events()))
        if len(found) > _MOST_SECRETS:
            raise NotShownError(f"the task has more than {_MOST_SECRETS} secrets, too many to look for")
        return Secrets(found)

    def _of_events(self) -> Iterator[Secrets]:
        for step in self.record.steps:
            model = self._event_model(step.name)
            if model is not None:
                texts = (step.received, step.result)
                yield from (
                    fields_of(model).hide(json.loads(each)).secrets for each in texts if each is not None
                )

    def _event_model(self, step: StepName) -> type[BaseModel] | None:
        """Give the model of a step's event, None for one that waits for none."""
        if self.record.step(step).shape.via is not Way.EVENT:
            return None
        defined = {each.name: each for each in self._workflow.steps}.get(step_of(step))
        if defined is None or defined.payload is None:
            raise NotShownError(f"step '{step}' is not deployed here, which would say what of it is secret")
        return defined.payload

    @property
    def _workflow(self) -> Workflow:
        order = self.record.order
        workflow = self.registry.find(order.workflow, order.workflow_version)
        if workflow is None:
            raise NotShownError(
                f"version {order.workflow_version} of '{order.workflow}' is not deployed here, whose model"
                " would say what of it is secret"
            )
        return workflow


def clean(registry: Registry, record: TaskRecord, event: Event) -> Event:
    """Give an event without what is secret, in the text that a service or a definition has made."""
    match event:
        case StepFailed() | StepUnrecorded() | StepBroken():
            return replace(event, error=Contents(registry, record).without_secrets(event.error))
        case StepUnknown() | StepTried():
            return replace(event, fault=Contents(registry, record).without_secrets(event.fault))
        case Parked():
            return replace(event, reason=Contents(registry, record).without_secrets(event.reason))
        case ChildEnded() if event.error is not None:
            return replace(event, error=Contents(registry, record).without_secrets(event.error))
        case _:
            return event


def fields_of(model: type[BaseModel]) -> SecretFields:
    """Give the secret fields of a model. Raises `NotShownError`."""
    try:
        return secret_fields(model)
    except Exception as fault:  # noqa: BLE001 - whatever pydantic, or a type of the model's own, raises
        text = f"its model has no JSON schema, which would say what of it is secret ({type(fault).__name__})"
        raise NotShownError(text) from None
