"""Operators list rejected messages, read them without secrets, send them again and discard them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.http.redaction import REDACTED
from functions.messaging.message_format import QueueMessage
from functions.messaging.rejected_messages import ConcurrentActionError
from tests.fakes.asgi import HttpAnswer
from tests.security.purchases import CANARY, PAYLOAD, PURCHASES
from tests.unit.operators.conftest import LINE, TASK, Desk

REASON = {"reason": "the workflow is deployed now"}
NO_MESSAGE = f"{0:018d}-{'0' * 64}"


async def _reject(desk: Desk, queue: str = "submissions", body: bytes = b"{", number: int = 1) -> None:
    await desk.rejected.reject(queue, QueueMessage(message_id=f"m-{number}", body=body), "not JSON")


async def _listed(desk: Desk, query: str = "") -> list[dict[str, Any]]:
    answer = await desk.get(f"/rejected{query}")
    assert answer.status == 200, answer.body
    messages: list[dict[str, Any]] = answer.json["messages"]
    return messages


async def _resend(desk: Desk, message: str) -> HttpAnswer:
    return await desk.post(f"/rejected/{message}/resend", REASON)


async def test_messages_are_listed_newest_first_by_queue(desk: Desk) -> None:
    """Each queue has its dead letters; both of its names find them."""
    await _reject(desk, "submissions", number=1)
    desk.clock.advance(1)
    await _reject(desk, "notices-demo", number=2)
    desk.clock.advance(1)
    await _reject(desk, "notices-demo/$DeadLetterQueue", number=3)
    await _reject(desk, "eventhub|orders", number=4)
    desk.clock.advance(1)
    await _reject(desk, "notices-demo-2", number=5)
    assert next(each["message_id"] for each in await _listed(desk)) == "m-5"
    for name in ("notices-demo", "notices-demo/$DeadLetterQueue"):
        assert [each["message_id"] for each in await _listed(desk, f"?queue={name}")] == ["m-3", "m-2"]
    [event] = await _listed(desk, "?queue=eventhub%7Corders")
    assert (event["queue"], event["size"], event["whole"]) == ("eventhub|orders", 1, True)


async def test_list_is_read_page_by_page(desk: Desk) -> None:
    """The next page begins with the messages of the time that ends the page before."""
    for number in range(120):
        desk.clock.advance(1)
        await _reject(desk, number=number)
    found: list[str] = []
    query, more = "", True
    while more:
        page = (await desk.get(f"/rejected{query}")).json
        names, more = [each["message_id"] for each in page["messages"]], page["more"]
        assert found[-1:] == names[: len(found[-1:])]
        found += names[len(found[-1:]) :]
        query = f"?until={page['messages'][-1]['rejected_at']}"
    assert found == [f"m-{number}" for number in reversed(range(120))]
    assert (await desk.get("/rejected?until=x")).status == 422


@pytest.mark.parametrize("queue", ["submissions", "submissions/$DeadLetterQueue", "eventhub|orders"])
async def test_message_is_sent_again_whole(desk: Desk, queue: str) -> None:
    """To its queue or that of orders, with a new id each time. Operator and reason are recorded first."""
    message = QueueMessage(
        message_id="m-1", body=b"body", subject="line", correlation_id="c", properties={"tenant": "blue"}
    )
    await desk.rejected.reject(queue, message, "why")
    [line] = await _listed(desk)
    for desk.is_sending, status in ((False, 503), (True, 202), (True, 202)):
        assert (await _resend(desk, line["id"])).status == status
    assert [(to, replace(copy, message_id="m-1")) for to, copy in desk.sent] == [("submissions", message)] * 2
    assert len({"m-1", *(copy.message_id for _, copy in desk.sent)}) == 3
    [line] = await _listed(desk)
    assert (line["resends"], line["resent_by"], line["resent_why"]) == (3, "operator", REASON["reason"])
    assert line["resent_as"] == desk.sent[-1][1].message_id


async def test_message_of_another_operator_is_not_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice would be doubled."""

    async def resend(message: str, *_: str) -> None:
        raise ConcurrentActionError(message)

    monkeypatch.setattr(desk.rejected, "resend", resend)
    answer = await _resend(desk, NO_MESSAGE)
    assert (answer.status, desk.sent) == (409, [])


async def test_beginning_of_a_message_is_shown_and_not_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a message is another message."""
    monkeypatch.setattr("functions.messaging.rejected_messages._MOST_BODY_BYTES", 10)
    await _reject(desk, "agent-replies", b"x" * 11)
    [line] = await _listed(desk)
    assert (await _resend(desk, line["id"])).status == 409
    shown = (await desk.get(f"/rejected/{line['id']}")).json
    assert (shown["body"], shown["more"], desk.sent) == ("x" * 10, True, [])


async def test_unknown_message_is_not_found(desk: Desk) -> None:
    """It was deleted, or it never was; an action needs a reason."""
    for action in ("resend", "discard"):
        assert (await desk.post(f"/rejected/{NO_MESSAGE}/{action}", REASON)).status == 404
        assert (await desk.post(f"/rejected/{NO_MESSAGE}/{action}", {})).status == 422
        assert (await desk.post(f"/rejected/x/{action}", REASON)).status == 422
    assert (await desk.get(f"/rejected/{NO_MESSAGE}")).status == 404


async def test_discarded_message_keeps_its_description(desk: Desk) -> None:
    """The operator and the reason are recorded; the body is deleted."""
    await _reject(desk)
    [line] = await _listed(desk)
    assert (await desk.post(f"/rejected/{line['id']}/discard", REASON)).status == 202
    assert await _listed(desk) == []
    [kept] = await _listed(desk, "?discarded=true&queue=submissions")
    assert (kept["message_id"], kept["reason"], kept["size"]) == ("m-1", "not JSON", 1)
    assert (kept["discarded_by"], kept["discarded_why"]) == ("operator", REASON["reason"])
    assert (await desk.post(f"/rejected/{line['id']}/discard", REASON)).status == 404


async def test_messages_that_were_seen_are_discarded(desk: Desk) -> None:
    """A hundred with each request; later ones and those of other queues stay."""
    await _reject(desk, "agent-replies", number=0)
    for number in range(1, 151):
        await _reject(desk, "submissions" if number % 2 else "submissions/$DeadLetterQueue", number=number)
    until = (await _listed(desk))[0]["rejected_at"]
    desk.clock.advance(1)
    await _reject(desk, number=151)
    selected = REASON | {"queue": "submissions", "until": until}
    answers = [(await desk.post("/rejected/discard", selected)).json for _ in range(3)]
    assert answers == [
        {"discarded": 100, "left": True},
        {"discarded": 50, "left": False},
        {"discarded": 0, "left": False},
    ]
    assert {each["message_id"] for each in await _listed(desk)} == {"m-0", "m-151"}
    assert (await desk.post("/rejected/discard", REASON)).json == {"discarded": 2, "left": False}
    assert (await desk.post("/rejected/discard", REASON | {"until": "x"})).status == 422


# Bodies


async def _details(desk: Desk, body: bytes, queue: str = "submissions") -> dict[str, Any]:
    await _reject(desk, queue, body)
    line, *_ = await _listed(desk)
    shown: dict[str, Any] = (await desk.get(f"/rejected/{line['id']}")).json
    assert shown == line | {name: shown[name] for name in ("body", "more", "why")}
    return shown


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b'{"id": "order-1",\n\t"amount": 4.90', '{"id": "order-1",\n\t"amount": 4.90'),
        ("grün \u202egnp \x1b[2J".encode(), "grün �gnp �[2J"),
        (b"caf\xe9", "caf�"),
        (b'{"start_id":"0f8f","an":"\xc3\xbc"}', '{"start_id": "(hidden)", "an": "ü"}'),
        (b'{"start_id": "short", "start_id": ["a"], "n": NaN}', '{"start_id": "(hidden)", "n": NaN}'),
        (rb'{"\u0073tart_id": null}', '{"start_id": "(hidden)"}'),
        (b"x" * 65_537, "x" * 65_536),
        ('{"start_id": "x"}'.encode("utf-16"), None),
    ],
)
async def test_start_id_is_hidden(desk: Desk, body: bytes, text: str | None) -> None:
    """A resend contains it."""
    shown = await _details(desk, body, "agent-replies")
    assert (shown["body"], shown["more"]) == (text, len(body) > 65_536)
    assert (await _resend(desk, shown["id"])).status == 202
    assert desk.sent[0][1].body == body


ORDER = {"workflow": "purchase", "payload": dict(PAYLOAD), "submitter": "ann", "task_id": TASK}
_TEXT = json.dumps(ORDER)
_REJECTS = "its model has secret fields and rejects it"
_NOT_DEPLOYED = "the version of its workflow is not deployed"
_OTHER = "a deployed workflow has secret fields"


@pytest.mark.parametrize(
    ("queue", "body", "why"),
    [
        ("submissions", ORDER | {"version": 1}, None),
        ("submissions/$DeadLetterQueue", ORDER, None),
        ("eventhub|orders", ORDER, None),
        ("submissions", ORDER | {"card": CANARY, "submitter": [CANARY]}, None),
        ("submissions", _TEXT[:-1] + ', "payload": {"amount": NaN}}', _REJECTS),
        ("submissions", ORDER | {"payload": [CANARY]}, _REJECTS),
        ("submissions", _TEXT.replace('"Ann"', '"\\ud83d"'), _REJECTS),
        ("submissions", ORDER | {"version": 2}, _NOT_DEPLOYED),
        ("submissions", ORDER | {"workflow": "other"}, _NOT_DEPLOYED),
        ("submissions", _TEXT[:-9], _OTHER),
        ("submissions", f"[{_TEXT}]", _OTHER),
        ("submissions", _TEXT.replace("5", 12_000 * "[" + 12_000 * "]"), _OTHER),
        ("submissions", _TEXT.replace("5", 5_000 * "5"), _OTHER),
        ("agent-replies", {"task_id": TASK, "result": {"for": CANARY}}, _OTHER),
        ("notices-demo", f"no JSON {CANARY}", _OTHER),
    ],
)
async def test_body_is_shown_without_secrets(queue: str, body: Any, why: str | None) -> None:
    """Or not at all, if no model names its secret fields; the answer says why."""
    desk = Desk(PURCHASES, LINE)
    encoded = (body if isinstance(body, str) else json.dumps(body)).encode()
    found = await _details(desk, encoded, queue)
    assert CANARY not in str(found)
    if why is None:
        assert REDACTED in json.loads(found["body"])["payload"]["card"]["number"]
    assert (found["body"] is None, found["why"]) == (why is not None, why and f"Not shown: {why}.")


@pytest.mark.parametrize(
    "body",
    [
        '{"note": "1 < 2"}',
        '["no object"]',
        '{"workflow": "line", "payload": {"weight": 1}}',
        '{"task_id": ["x"],  "result": "no task"}',
    ],
)
async def test_body_without_secret_fields_is_shown_as_it_is(desk: Desk, body: str) -> None:
    """Spaces included, in any queue."""
    for number, queue in enumerate(("submissions", "agent-replies")):
        desk.clock.advance(number)
        assert (await _details(desk, body.encode(), queue))["body"] == body
