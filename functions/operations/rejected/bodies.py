"""Bodies of rejected messages as text, without tokens and without secret fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from functions.messages.queues import queue_of_another_try
from functions.operations.action_requests import ShownText, nothing_of, text_of
from functions.pattern.contents import Contents, NotShownError, fields_of, has_secret_fields
from functions.pattern.definition import Registry
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.messages import SUBMISSIONS_QUEUE, SubmissionMessage
from functions.pattern.ports import Ports
from functions.pattern.rejected import RejectedMessage
from functions.pattern.secret_fields import HIDDEN
from functions.pattern.strict_json import lenient_json


async def show_body(ports: Ports, registry: Registry, message: RejectedMessage, body: bytes) -> ShownText:
    """Return a body as text, or the reason why it is not shown. Raises `TransientError`.

    The payload of an order is shown by its workflow's model. A body that is no such order is not shown if a
    deployed workflow has secret fields. The other messages have no model: one that names a task is shown only
    if the task's workflow has no secret fields. If the task is not recorded here, no deployed workflow may
    have any.
    """
    if b"\0" in body:
        return nothing_of("It is no text.")
    content = _object(body)
    hidden: dict[str, Any] = {"token": HIDDEN} if "token" in content else {}
    try:
        if queue_of_another_try(message.queue) == SUBMISSIONS_QUEUE:
            hidden |= _payload(registry, content)
        else:
            await _check_task(ports, registry, message, content)
        if not hidden:
            return text_of(body.decode(errors="replace"))
        # The original text may have an earlier value of the same name.
        return text_of(json.dumps({**content, **hidden}, ensure_ascii=False))
    except NotShownError as reason:
        return nothing_of(f"Not shown: {reason}.")
    except RecursionError:
        return nothing_of("Not shown: it is nested too deeply.")


def _payload(registry: Registry, order: Mapping[str, Any]) -> dict[str, Any]:
    others = (each for name, each in order.items() if name != "payload")
    is_known = order.keys() <= SubmissionMessage.model_fields.keys()
    if "payload" not in order or not is_known or any(isinstance(each, dict | list) for each in others):
        if any(map(has_secret_fields, registry)):
            raise NotShownError("it is no order, and a deployed workflow has secret fields")
        return {}
    name, version = order.get("workflow"), order.get("version")
    is_named = isinstance(name, str) and isinstance(version, int | None)
    workflow = registry.find(str(name), version) if is_named else None
    if workflow is None:
        raise NotShownError("its workflow's version is not deployed here")
    return {"payload": fields_of(workflow.payload).hide(order["payload"])}


async def _check_task(
    ports: Ports, registry: Registry, message: RejectedMessage, content: Mapping[str, Any]
) -> None:
    task = message.task or content.get("task_id", content.get("id"))
    if not isinstance(task, str) or re.fullmatch(TASK_ID_PATTERN, task) is None:
        return
    try:
        stored = await ports.store.load(TaskId(task))
    except UnreadableError as error:
        raise NotShownError(str(error)) from None
    # An earlier task may have had the same id.
    if stored is not None and stored.record.order.submitted_at <= message.rejected_at:
        if Contents(registry, stored.record).has_secret_fields:
            raise NotShownError("its workflow has secret fields, and no model declares those of this message")
    elif any(map(has_secret_fields, registry)):
        raise NotShownError("its task is not recorded here, and a deployed workflow has secret fields")


def _object(body: bytes) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other body."""
    content = lenient_json(body)
    return content if isinstance(content, dict) else {}
