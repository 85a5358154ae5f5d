"""Bodies of rejected messages as text, without tokens and without secret fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from functions.messages.queues import queue_of_another_try
from functions.messages.reading import without_tokens
from functions.operations.action_requests import ShownText, nothing_of, text_of
from functions.pattern.contents import Contents, NotShownError, fields_of, shown_as
from functions.pattern.definition import Registry
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TASK_ID_PATTERN, TaskId, resource_id
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.rejected import RejectedMessage
from functions.pattern.strict_json import NotJsonError, parse_json

_UNKNOWN_ORDER = "It can't be told what of it is secret"


class Bodies:
    """Reads bodies without tokens and without secret fields.

    The payload of an order is read by its workflow's model. In other messages, each value that equals a
    secret field of the task that the message names is redacted. A body is not shown if the version of its
    workflow is not deployed here, or if a workflow has secret fields and the task is not recorded here.
    """

    def __init__(self, ports: Ports, registry: Registry) -> None:
        self._store = ports.store
        self._registry = registry

    async def show(self, message: RejectedMessage, body: bytes) -> ShownText:
        """Return a body as text, or the reason why it is not shown. Raises `TransientError`."""
        if b"\0" in body:
            return nothing_of("It is no text.")
        text = body.decode(errors="replace")
        content = _object(body)
        if content is not None:
            try:
                redacted = await self._redacted(message, content)
            except NotShownError as reason:
                return nothing_of(f"{_UNKNOWN_ORDER}: {reason}.")
            if redacted != content:
                text = json.dumps(redacted, ensure_ascii=False)
        return text_of(without_tokens(text))

    async def _redacted(self, message: RejectedMessage, content: Mapping[str, Any]) -> Mapping[str, Any]:
        if queue_of_another_try(message.queue) == SUBMISSIONS_QUEUE:
            return self._order(content)
        task = _task_of(message, content)
        contents = None if task is None else await self._task(task)
        if contents is not None and not _is_of_another(contents.record, message, content):
            redacted: Mapping[str, Any] = contents.secrets.without(content)
            return redacted
        if task is not None and self._has_secret_fields:
            raise NotShownError("its task is not recorded here")
        return content

    @property
    def _has_secret_fields(self) -> bool:
        models = {workflow.payload for workflow in self._registry}
        models |= {step.payload for each in self._registry for step in each.steps if step.payload is not None}
        try:
            return any(fields_of(model).any for model in models)
        except NotShownError:
            return True

    def _order(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        if "payload" not in content:
            return content
        name, version = content.get("workflow"), content.get("version")
        is_named = isinstance(name, str) and isinstance(version, int | None)
        workflow = self._registry.find(str(name), version) if is_named else None
        if workflow is None:
            raise NotShownError("its workflow's version is not deployed here")
        payload = json.dumps(content["payload"]).encode()
        return {**content, "payload": shown_as(workflow.payload, payload).content}

    async def _task(self, task: TaskId) -> Contents | None:
        try:
            stored = await self._store.load(task)
        except UnreadableError as error:
            raise NotShownError(str(error)) from None
        return None if stored is None else Contents(self._registry, stored.record)


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        content = parse_json(body)
    except NotJsonError:
        return None
    return content if isinstance(content, dict) else None


def _task_of(message: RejectedMessage, content: Mapping[str, Any]) -> TaskId | None:
    named = message.about.task or content.get("task_id", content.get("id"))
    is_one = isinstance(named, str) and re.fullmatch(TASK_ID_PATTERN, named)
    return TaskId(named) if is_one else None


def _is_of_another(record: TaskRecord, message: RejectedMessage, content: Mapping[str, Any]) -> bool:
    """Return whether a message is about an earlier task of the record's id."""
    order, key = record.order, content.get("effect_key")
    is_earlier = message.rejected_at < order.submitted_at
    return is_earlier or not (key is None or str(key).startswith(f"{resource_id(order.task, order.birth)}/"))
