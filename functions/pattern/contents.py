"""The payload, requests and results of a task, without the fields that its models declare as secret."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from functions.pattern.definition import Registry, Workflow
from functions.pattern.identity import StepName, step_of
from functions.pattern.readiness import Definitions, NotDeployedError
from functions.pattern.records import TaskRecord
from functions.pattern.requests import request_bytes
from functions.pattern.secret_fields import SecretFields, secret_fields
from functions.pattern.states import Direction, Way
from functions.pattern.texts import cause_of


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
        return _redacted(self._workflow.payload, self.record.order.payload)

    def request(self, step: StepName, direction: Direction) -> Any:
        """Make a step's request once more; an Agent's has no model. Raises `NotShownError`."""
        if self.record.step(step).shape.via is Way.WORKFLOW:
            made = self._request(step, direction)
            return _redacted(Definitions(self.registry, self.record).child_workflow(step).payload, made)
        if self.has_secret_fields:
            text = "its workflow has secret fields, and no model declares those of a request"
            raise NotShownError(text)
        return json.loads(self._request(step, direction))

    def result(self, step: StepName) -> Any:
        """Return a step's result, None without any; an Agent's has no model. Raises `NotShownError`."""
        recorded = self.record.step(step)
        if recorded.known_result is None:
            return None
        if recorded.shape.via is Way.EVENT:
            return _redacted(self._event_model(step), recorded.known_result)
        return json.loads(recorded.known_result)

    @property
    def has_secret_fields(self) -> bool:
        """Return whether the task's workflow has a secret field. Raises `NotShownError`."""
        return has_secret_fields(self._workflow)

    def _request(self, step: StepName, direction: Direction) -> bytes:
        task = replace(self.record.task, direction=direction)
        try:
            made = Definitions(self.registry, replace(self.record, task=task)).request(step)
        except NotDeployedError as lack:
            raise NotShownError(str(lack)) from None
        except Exception as fault:  # noqa: BLE001 - whatever a definition's function raises
            raise NotShownError(f"it can't be made: {cause_of(fault)}") from None
        return request_bytes(made)

    def _event_model(self, step: StepName) -> type[BaseModel]:
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


def _redacted(model: type[BaseModel], content: bytes) -> Any:
    """Return JSON that was sent as the model's, without its secret fields. Raises `NotShownError`."""
    return fields_of(model).hide(json.loads(content))


def has_secret_fields(workflow: Workflow) -> bool:
    """Return whether the model of the payload or of an event has a secret field. Raises `NotShownError`."""
    events = (step.payload for step in workflow.steps if step.payload is not None)
    return any(fields_of(model).any for model in (workflow.payload, *events))


def may_have_secrets(model: type[BaseModel]) -> bool:
    """Return whether a model has a secret field, or no JSON schema, which would tell."""
    try:
        return fields_of(model).any
    except NotShownError:
        return True


def fields_of(model: type[BaseModel]) -> SecretFields:
    """Give the secret fields of a model. Raises `NotShownError`."""
    try:
        return secret_fields(model)
    except Exception as fault:  # noqa: BLE001 - whatever pydantic, or a type of the model's own, raises
        text = f"its model has no JSON schema, which would say what of it is secret ({type(fault).__name__})"
        raise NotShownError(text) from None
