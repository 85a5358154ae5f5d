"""Bodies of rejected messages as text, without tokens, and without what is secret in an order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from functions.messages.queues import queue_of_another_try
from functions.messages.tokens import without_tokens
from functions.operations.shown import ShownText, nothing_of, text_of
from functions.pattern.contents import Contents, NotShownError, fields_of, shown_as
from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import UnreadableError
from functions.pattern.hiding import HIDDEN
from functions.pattern.identity import TASK_ID_PATTERN, TaskId, resource_id
from functions.pattern.messages import SUBMISSIONS_QUEUE, SubmissionMessage
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.rejected import RejectedMessage
from functions.pattern.strict_json import NotJsonError, parse_json

_UNKNOWN_ORDER = "It can't be told what of it is secret"


class Bodies:
    """Shows bodies. Where no workflow has a secret field, there is nothing in them to hide but tokens.

    Otherwise a body is shown if it is known what is secret in it: of an order by its workflow's model, of any
    other message by the task that it names. One of a version that is not deployed here is never shown: its
    model may have had a secret field.
    """

    def __init__(self, ports: Ports, registry: Registry) -> None:
        self._store = ports.store
        self._registry = registry

    async def show(self, message: RejectedMessage, body: bytes) -> ShownText:
        """Show a body, or say why not. Raises `TransientError`."""
        if b"\0" in body:
            return nothing_of("It is no text.")
        text = body.decode(errors="replace")
        try:
            if self._may_hold_secrets:
                text = json.dumps(await self._without_secrets(message, body), ensure_ascii=False)
            else:
                await self._see_that_its_version_is_here(message, body)
        except (NotShownError, NotJsonError) as reason:
            return nothing_of(f"{_UNKNOWN_ORDER}: {reason}.")
        return text_of(without_tokens(text))

    @property
    def _may_hold_secrets(self) -> bool:
        """Tell whether a workflow that is deployed here has a secret field, or may have."""
        models = {workflow.payload for workflow in self._registry}
        models |= {step.payload for each in self._registry for step in each.steps if step.payload is not None}
        try:
            return any(fields_of(model).any for model in models)
        except NotShownError:
            return True

    async def _without_secrets(self, message: RejectedMessage, body: bytes) -> Any:
        content = parse_json(body)
        if not isinstance(content, dict):
            raise NotShownError("it is no JSON object")
        if queue_of_another_try(message.queue) == SUBMISSIONS_QUEUE:
            return self._order(content)
        named = _task_of(message, content)
        if named is None:
            raise NotShownError("it names no task")
        contents = await self._task(named)
        if contents is None:
            raise NotShownError("its task is not recorded here")
        if _is_of_another(contents.record, message, content):
            raise NotShownError("it is of an earlier task of this id")
        return contents.secrets.without(content)

    async def _see_that_its_version_is_here(self, message: RejectedMessage, body: bytes) -> None:
        """Raise `NotShownError` if not; what names no version that was here once has nothing of one."""
        try:
            content = parse_json(body)
        except NotJsonError:
            return
        if not isinstance(content, dict):
            return
        if queue_of_another_try(message.queue) == SUBMISSIONS_QUEUE:
            if isinstance(content.get("workflow"), str):
                self._workflow_of(content)
            return
        named = _task_of(message, content)
        contents = None if named is None else await self._task(named)
        if contents is not None:
            _ = contents.secrets  # raises if it is not here

    def _workflow_of(self, content: Mapping[str, Any]) -> Workflow:
        name, version = content.get("workflow"), content.get("version")
        known = isinstance(name, str) and isinstance(version, int | None)
        workflow = self._registry.find(str(name), version) if known else None
        if workflow is None:
            raise NotShownError("its workflow's version is not deployed here")
        return workflow

    def _order(self, content: Mapping[str, Any]) -> Any:
        workflow = self._workflow_of(content)
        hidden = shown_as(workflow.payload, json.dumps(content.get("payload")).encode())
        envelope = {field: _of_envelope(field, each) for field, each in content.items() if field != "payload"}
        return hidden.secrets.without(envelope) | {"payload": hidden.content}

    async def _task(self, task: TaskId) -> Contents | None:
        try:
            stored = await self._store.load(task)
        except UnreadableError as error:
            raise NotShownError(str(error)) from None
        return None if stored is None else Contents(self._registry, stored.record)


def _task_of(message: RejectedMessage, content: Mapping[str, Any]) -> TaskId | None:
    named = message.about.task or content.get("task_id", content.get("id"))
    is_one = isinstance(named, str) and re.fullmatch(TASK_ID_PATTERN, named)
    return TaskId(named) if is_one else None


def _of_envelope(field: str, content: Any) -> Any:
    """Hide what belongs into the payload, and stands beside it."""
    is_known = field in SubmissionMessage.model_fields and not isinstance(content, dict | list)
    return content if is_known else HIDDEN


def _is_of_another(record: TaskRecord, message: RejectedMessage, content: Mapping[str, Any]) -> bool:
    """Tell whether a message is of an earlier task of the record's id: its secrets are not known here."""
    order, key = record.order, content.get("effect_key")
    is_earlier = message.rejected_at < order.submitted_at
    return is_earlier or not (key is None or str(key).startswith(f"{resource_id(order.task, order.birth)}/"))
