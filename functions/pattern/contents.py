"""What a task holds, without what its models mark as secret: payload, requests, results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from functions.pattern.definition import Registry, Workflow
from functions.pattern.hiding import Secrets
from functions.pattern.identity import StepName, step_of
from functions.pattern.readiness import Definitions, NotDeployedError, validated
from functions.pattern.records import TaskRecord
from functions.pattern.requests import request_bytes
from functions.pattern.secret_fields import SecretFields, Shown, secret_fields
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
        return self._payload.content

    def request(self, step: StepName, direction: Direction) -> Any:
        """Make a step's request once more. Raises `NotShownError`, with what its function raises."""
        secrets, made = self.secrets, self._request(step, direction)
        is_child = self.record.step(step).shape.via is Way.WORKFLOW
        return secrets.without(self._of_child(step, made).content if is_child else json.loads(made))

    def result(self, step: StepName) -> Any:
        """Give a step's result, None without any. Raises `NotShownError`."""
        recorded = self.record.step(step)
        if recorded.known_result is None:
            return None
        model = self._event_model(step)
        if model is not None:
            return self.secrets.without(shown_as(model, recorded.known_result).content)
        content = json.loads(recorded.known_result)
        if recorded.shape.via is Way.WORKFLOW:
            content = self._of_child(step, self._request(step, Direction.DO)).secrets.without(content)
        return self.secrets.without(content)

    def _request(self, step: StepName, direction: Direction) -> bytes:
        task = replace(self.record.task, direction=direction)
        try:
            made = Definitions(self.registry, replace(self.record, task=task)).request(step)
        except NotDeployedError as lack:
            raise NotShownError(str(lack)) from None
        except Exception as fault:  # noqa: BLE001 - whatever a definition's function raises
            raise NotShownError(f"it can't be made: {cause_of(fault)}") from None
        return request_bytes(made)

    def _of_child(self, step: StepName, made: bytes) -> Shown:
        """Read the payload of the task that is a step as its own model does."""
        return shown_as(Definitions(self.registry, self.record).child_workflow(step).payload, made)

    @cached_property
    def secrets(self) -> Secrets:
        """Values of the secret fields of the payload and of the events. Raises `NotShownError`."""
        return Secrets(self._payload.secrets.values.union(*(each.values for each in self._of_events())))

    @cached_property
    def _payload(self) -> Shown:
        return shown_as(self._workflow.payload, self.record.order.payload)

    def _of_events(self) -> Iterator[Secrets]:
        for step in self.record.steps:
            model = self._event_model(step.name)
            if model is not None:
                texts = (step.received, step.result)
                yield from (shown_as(model, each).secrets for each in texts if each is not None)

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


def shown_as(model: type[BaseModel], content: bytes) -> Shown:
    """Give JSON that was sent as the model's, without its secrets, and these as they were sent, and read.

    A model may change them, such as by a validator. Raises `NotShownError`.
    """
    secret = fields_of(model)
    shown = secret.hide(json.loads(content))
    if not secret.any:
        return shown
    try:
        read = secret.read(validated(model, content))
    except Exception:  # noqa: BLE001 - whatever a model raises of what is none of its own
        return shown
    return replace(shown, secrets=Secrets(shown.secrets.values | read.values))


def fields_of(model: type[BaseModel]) -> SecretFields:
    """Give the secret fields of a model. Raises `NotShownError`."""
    try:
        return secret_fields(model)
    except Exception as fault:  # noqa: BLE001 - whatever pydantic, or a type of the model's own, raises
        text = f"its model has no JSON schema, which would say what of it is secret ({type(fault).__name__})"
        raise NotShownError(text) from None
