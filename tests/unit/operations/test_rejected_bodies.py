"""Bodies of rejected messages are shown without secrets, or not at all."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.pattern.definition import Registry
from functions.pattern.errors import UnreadableError
from functions.pattern.hiding import HIDDEN
from tests.fakes.clock import START
from tests.fakes.purchases import CANARY, PAYLOAD, PURCHASES, purchase
from tests.fakes.workflows import LINE, TASK
from tests.unit.operations.conftest import Desk

ORDER = {"workflow": "purchase", "payload": dict(PAYLOAD), "submitter": "ann", "task_id": TASK}
REQUEST = {"task_id": TASK, "request": {"card": CANARY}}
#: A secret that nobody knows of.
OTHER = "0th3r"


@pytest.mark.parametrize(
    ("queue", "body", "shown"),
    [
        ("submissions", ORDER | {"version": 1}, True),
        ("submissions/$DeadLetterQueue", ORDER, True),
        ("eventhub|order-events", ORDER, True),
        ("eventhub|order-events", ORDER | {"workflow": "other"}, False),
        ("submissions", ORDER | {"payload": [CANARY]}, True),
        ("submissions", ORDER | {"version": 2}, False),
        ("submissions", ORDER | {"version": [CANARY]}, False),
        ("submissions", ORDER | {"workflow": "other"}, False),
        ("submissions", {"payload": CANARY}, False),
        ("agent-replies", {"task_id": TASK, "result": {"for": CANARY}}, True),
        ("notices-demo", {"id": TASK, "answer": {"for": CANARY}}, True),
        ("agent-replies", {"task_id": "other", "result": CANARY}, False),
        ("agent-pay-requests", REQUEST | {"effect_key": f"{TASK}.0a1b2c3d/pay/do"}, True),
        ("agent-pay-requests", REQUEST | {"effect_key": f"{TASK}.ffffffff/pay/do", "n": OTHER}, False),
    ],
)
async def test_body_is_shown_without_secrets(queue: str, body: Any, *, shown: bool) -> None:
    """Or not at all, where it is not known what is secret in it; the page says so."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    desk.holds(purchase(TASK))
    encoded = (body if isinstance(body, str) else json.dumps(body)).encode()
    await desk.rejected.reject(queue, "m-1", encoded, "why")
    [line] = (await desk.get("/rejected")).json["messages"]
    answer = await desk.get(f"/rejected/{line['id']}")
    assert CANARY not in answer.body.decode()
    assert OTHER not in answer.body.decode()
    if shown:
        assert HIDDEN in answer.json["body"]
        assert answer.json["why"] is None
    else:
        assert answer.json["body"] is None
        assert answer.json["why"].startswith("It can't be told what of it is secret: ")


@pytest.mark.parametrize(
    ("queue", "body", "shown"),
    [
        ("submissions", ORDER, False),
        ("submissions", ORDER | {"workflow": "line", "version": 2}, False),
        ("agent-replies", {"task_id": TASK, "result": {"for": CANARY}}, False),
        ("submissions", {"workflow": "line", "payload": {"weight": 1}}, True),
        ("agent-replies", {"task_id": "other", "result": {"receipt": 1}}, True),
    ],
)
async def test_body_of_a_version_that_is_not_deployed_is_not_shown(
    queue: str, body: Any, *, shown: bool
) -> None:
    """Its model may have had a secret field, though none that is deployed has; the page says so."""
    desk = Desk(registry=Registry((LINE,), {}))
    desk.holds(purchase(TASK))
    await desk.rejected.reject(queue, "m-1", json.dumps(body).encode(), "why")
    [line] = (await desk.get("/rejected")).json["messages"]
    found = (await desk.get(f"/rejected/{line['id']}")).json
    assert found["body"] == (json.dumps(body) if shown else None)
    assert shown or "not deployed here" in found["why"]


@pytest.mark.parametrize(
    ("queue", "body"),
    [
        ("submissions", '{"note": "1 < 2"'),
        ("submissions", '["no object"]'),
        ("submissions", '{"id": "no payload"}'),
        ("agent-replies", "no JSON"),
        ("agent-replies", '{"task_id": ["x"],  "result": "no task"}'),
        ("agent-replies", '{"task_id":  "task-1", "result": {"receipt": "R-1"}}'),
    ],
)
async def test_body_without_a_secret_field_is_shown_as_it_came(queue: str, body: str) -> None:
    """Where it is no JSON, no order, and about no task; spaces included."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    desk.holds(purchase(TASK))
    await desk.rejected.reject(queue, "m-1", body.encode(), "why")
    [line] = (await desk.get("/rejected")).json["messages"]
    assert (await desk.get(f"/rejected/{line['id']}")).json["body"] == body


async def test_body_of_an_earlier_task_is_not_shown() -> None:
    """It was rejected before the task was submitted that has its id now."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    await desk.rejected.reject("agent-replies", "m-1", json.dumps(REQUEST).encode(), "why")
    record = purchase(TASK)
    desk.holds(replace(record, order=replace(record.order, submitted_at=START + timedelta(days=40))))
    [line] = (await desk.get("/rejected")).json["messages"]
    shown = (await desk.get(f"/rejected/{line['id']}")).json
    assert shown["why"].endswith("its task is not recorded here.")


async def test_body_of_a_task_that_cannot_be_read_is_not_shown() -> None:
    """Nor where a model does not say what is secret."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    desk.store.failure = UnreadableError("task-1|order", "damaged")
    await desk.rejected.reject("agent-replies", "m-1", json.dumps({"task_id": TASK}).encode(), "why")
    [line] = (await desk.get("/rejected")).json["messages"]
    shown = (await desk.get(f"/rejected/{line['id']}")).json
    assert (shown["body"], "damaged" in shown["why"]) == (None, True)


async def test_body_of_backslashes_does_not_block_the_process() -> None:
    """Whoever may write to a queue can leave one, and an operator opens it."""
    desk, body = Desk(), b"\\" * 60_000
    await desk.rejected.reject("agent-replies", "m-1", body, "why")
    [line] = (await desk.get("/rejected")).json["messages"]
    begun = time.process_time()
    assert (await desk.get(f"/rejected/{line['id']}")).json["body"] is not None
    assert time.process_time() - begun < 3
