"""Operators list rejected messages, read them without secrets, send them again and discard them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.messaging.message_format import QueueMessage
from functions.messaging.rejected_messages import ConcurrentActionError
from functions.web.redaction import REDACTED
from tests.fakes.asgi import HttpAnswer
from tests.security.purchases import CANARY, PAYLOAD, PURCHASES
from tests.unit.operators.conftest import LINE, TASK
from tests.unit.overview.conftest import Office

REASON = {"reason": "the workflow is deployed now"}
NO_MESSAGE = f"{0:018d}-{'0' * 64}"


async def _reject(office: Office, queue: str = "submissions", body: bytes = b"{", number: int = 1) -> None:
    await office.rejected.reject(queue, QueueMessage(message_id=f"m-{number}", body=body), "not JSON")


async def _listed(office: Office, query: str = "") -> list[dict[str, Any]]:
    answer = await office.get(f"/rejected{query}")
    assert answer.status == 200, answer.body
    messages: list[dict[str, Any]] = answer.json["messages"]
    return messages


async def _resend(office: Office, message: str) -> HttpAnswer:
    return await office.post(f"/rejected/{message}/resend", REASON)


async def test_messages_are_listed_newest_first_by_queue(office: Office) -> None:
    """Each queue has its dead letters; both of its names find them."""
    await _reject(office, "submissions", number=1)
    office.clock.advance(1)
    await _reject(office, "notices-demo", number=2)
    office.clock.advance(1)
    await _reject(office, "notices-demo/$DeadLetterQueue", number=3)
    await _reject(office, "eventhub|orders", number=4)
    office.clock.advance(1)
    await _reject(office, "notices-demo-2", number=5)
    assert next(each["message_id"] for each in await _listed(office)) == "m-5"
    for name in ("notices-demo", "notices-demo/$DeadLetterQueue"):
        assert [each["message_id"] for each in await _listed(office, f"?queue={name}")] == ["m-3", "m-2"]
    [event] = await _listed(office, "?queue=eventhub%7Corders")
    assert (event["queue"], event["size"], event["whole"]) == ("eventhub|orders", 1, True)


async def test_list_is_read_page_by_page(office: Office) -> None:
    """The next page begins with the messages of the time that ends the page before."""
    for number in range(120):
        office.clock.advance(1)
        await _reject(office, number=number)
    found: list[str] = []
    query, more = "", True
    while more:
        page = (await office.get(f"/rejected{query}")).json
        names, more = [each["message_id"] for each in page["messages"]], page["more"]
        assert found[-1:] == names[: len(found[-1:])]
        found += names[len(found[-1:]) :]
        query = f"?until={page['messages'][-1]['rejected_at']}"
    assert found == [f"m-{number}" for number in reversed(range(120))]
    assert (await office.get("/rejected?until=x")).status == 422


@pytest.mark.parametrize("queue", ["submissions", "submissions/$DeadLetterQueue", "eventhub|orders"])
async def test_message_is_sent_again_whole(office: Office, queue: str) -> None:
    """To its queue, or to the queue of orders, under a new id each time; who and why are recorded first."""
    message = QueueMessage(
        message_id="m-1", body=b"body", subject="line", correlation_id="c", properties={"tenant": "blue"}
    )
    await office.rejected.reject(queue, message, "why")
    [line] = await _listed(office)
    for office.is_sending, status in ((False, 503), (True, 202), (True, 202)):
        assert (await _resend(office, line["id"])).status == status
    assert [(to, replace(copy, message_id="m-1")) for to, copy in office.sent] == [
        ("submissions", message)
    ] * 2
    assert len({"m-1", *(copy.message_id for _, copy in office.sent)}) == 3
    [line] = await _listed(office)
    assert (line["resends"], line["resent_by"], line["resent_why"]) == (3, "operator", REASON["reason"])
    assert line["resent_as"] == office.sent[-1][1].message_id


async def test_message_of_another_operator_is_not_sent(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice would be doubled."""

    async def resend(message: str, *_: str) -> None:
        raise ConcurrentActionError(message)

    monkeypatch.setattr(office.rejected, "resend", resend)
    answer = await _resend(office, NO_MESSAGE)
    assert (answer.status, office.sent) == (409, [])


async def test_beginning_of_a_message_is_shown_and_not_sent(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a message is another message."""
    monkeypatch.setattr("functions.messaging.rejected_messages._MOST_BODY_BYTES", 10)
    await _reject(office, "agent-replies", b"x" * 11)
    [line] = await _listed(office)
    assert (await _resend(office, line["id"])).status == 409
    shown = (await office.get(f"/rejected/{line['id']}")).json
    assert (shown["body"], shown["more"], office.sent) == ("x" * 10, True, [])


async def test_unknown_message_is_not_found(office: Office) -> None:
    """It was deleted, or it never was; an action needs a reason."""
    for action in ("resend", "discard"):
        assert (await office.post(f"/rejected/{NO_MESSAGE}/{action}", REASON)).status == 404
        assert (await office.post(f"/rejected/{NO_MESSAGE}/{action}", {})).status == 422
        assert (await office.post(f"/rejected/x/{action}", REASON)).status == 422
    assert (await office.get(f"/rejected/{NO_MESSAGE}")).status == 404


async def test_discarded_message_keeps_its_description(office: Office) -> None:
    """The operator and the reason are recorded; the body is deleted."""
    await _reject(office)
    [line] = await _listed(office)
    assert (await office.post(f"/rejected/{line['id']}/discard", REASON)).status == 202
    assert await _listed(office) == []
    [kept] = await _listed(office, "?discarded=true&queue=submissions")
    assert (kept["message_id"], kept["reason"], kept["size"]) == ("m-1", "not JSON", 1)
    assert (kept["discarded_by"], kept["discarded_why"]) == ("operator", REASON["reason"])
    assert (await office.post(f"/rejected/{line['id']}/discard", REASON)).status == 404


async def test_messages_that_were_seen_are_discarded(office: Office) -> None:
    """A hundred with each request; later ones and those of other queues stay."""
    await _reject(office, "agent-replies", number=0)
    for number in range(1, 151):
        await _reject(office, "submissions" if number % 2 else "submissions/$DeadLetterQueue", number=number)
    until = (await _listed(office))[0]["rejected_at"]
    office.clock.advance(1)
    await _reject(office, number=151)
    selected = REASON | {"queue": "submissions", "until": until}
    answers = [(await office.post("/rejected/discard", selected)).json for _ in range(3)]
    assert answers == [
        {"discarded": 100, "left": True},
        {"discarded": 50, "left": False},
        {"discarded": 0, "left": False},
    ]
    assert {each["message_id"] for each in await _listed(office)} == {"m-0", "m-151"}
    assert (await office.post("/rejected/discard", REASON)).json == {"discarded": 2, "left": False}
    assert (await office.post("/rejected/discard", REASON | {"until": "x"})).status == 422


# Bodies


async def _details(office: Office, body: bytes, queue: str = "submissions") -> dict[str, Any]:
    await _reject(office, queue, body)
    [line] = await _listed(office)
    shown: dict[str, Any] = (await office.get(f"/rejected/{line['id']}")).json
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
async def test_start_id_is_hidden(office: Office, body: bytes, text: str | None) -> None:
    """A resend contains it."""
    shown = await _details(office, body, "agent-replies")
    assert (shown["body"], shown["more"]) == (text, len(body) > 65_536)
    assert (await _resend(office, shown["id"])).status == 202
    assert office.sent[0][1].body == body


ORDER = {"workflow": "purchase", "payload": dict(PAYLOAD), "submitter": "ann", "task_id": TASK}
_TEXT = json.dumps(ORDER)


@pytest.mark.parametrize(
    ("queue", "body", "why"),
    [
        ("submissions", ORDER | {"version": 1}, None),
        ("submissions/$DeadLetterQueue", ORDER, None),
        ("eventhub|orders", ORDER, None),
        ("submissions", ORDER | {"payload": [CANARY]}, None),
        ("submissions", _TEXT.replace('"amount": 5', f'"amount": {90 * "["}{90 * "]"}'), None),
        ("submissions", _TEXT[:-1] + ', "payload": {"amount": NaN}}', None),
        ("submissions", _TEXT.replace('"Ann"', '"\\ud83d"'), "its payload is not valid JSON"),
        ("submissions", ORDER | {"version": 2}, "not deployed"),
        ("submissions", ORDER | {"version": True}, "not deployed"),
        ("submissions", ORDER | {"version": [CANARY]}, "not an order"),
        ("submissions", ORDER | {"workflow": "other"}, "not deployed"),
        ("submissions", ORDER | {"card": CANARY}, "not an order"),
        ("submissions", _TEXT[:-9], "not an order"),
        ("submissions", f"[{_TEXT}]", "not an order"),
        ("submissions", _TEXT.replace("5", 12_000 * "[" + 12_000 * "]"), "not an order"),
        ("submissions", _TEXT.replace("5", 5_000 * "5"), "not an order"),
        ("agent-replies", {"task_id": TASK, "result": {"for": CANARY}}, "of its task has secret fields"),
        ("notices-demo", {"id": TASK, "output": {"for": CANARY}}, "of its task has secret fields"),
        ("agent-replies", {"task_id": "other", "result": CANARY}, "its task is not recorded"),
        ("agent-replies", f"no JSON {CANARY}", "it names no task"),
    ],
)
async def test_body_is_shown_without_secrets(queue: str, body: Any, why: str | None) -> None:
    """Or not at all, if no model names its secret fields; the answer says why."""
    office = Office(PURCHASES)
    await office.submit(TASK, PURCHASES, json.dumps(PAYLOAD))
    encoded = (body if isinstance(body, str) else json.dumps(body)).encode()
    found = await _details(office, encoded, queue)
    assert CANARY not in str(found)
    if why is None:
        assert (REDACTED in found["body"] or "NaN" in found["body"], found["why"]) == (True, None)
    else:
        assert (found["body"], why in found["why"]) == (None, True)


@pytest.mark.parametrize(
    ("queue", "body"),
    [
        ("submissions", '{"note": "1 < 2"}'),
        ("submissions", '["no object"]'),
        ("submissions", '{"workflow": "line", "payload": {"weight": 1}}'),
        ("agent-replies", '{"task_id": ["x"],  "result": "no task"}'),
        ("agent-replies", f'{{"task_id":  "{TASK}"}}'),
    ],
)
async def test_body_without_secret_fields_is_shown_as_it_is(queue: str, body: str) -> None:
    """Spaces included; another workflow may have secret fields if the task is known."""
    office = Office(LINE)
    await office.submit()
    assert (await _details(office, body.encode(), queue))["body"] == body


async def test_body_of_an_earlier_or_corrupt_task_is_not_details() -> None:
    """Its workflow may have been another one."""
    office = Office(PURCHASES, LINE)
    body = json.dumps({"task_id": TASK, "result": CANARY}).encode()
    await _reject(office, "agent-replies", body)
    office.clock.advance(60)
    await office.submit()
    [line] = await _listed(office)
    path = f"/rejected/{line['id']}"
    assert (await office.get(path)).json["why"] == (
        "Not shown: its task is not recorded, and a deployed workflow has secret fields."
    )
    await office.rejected.discard(line["id"], "operator", "why")
    await _reject(office, "agent-replies", body)
    [line] = await _listed(office)
    assert CANARY in (await office.get(f"/rejected/{line['id']}")).json["body"]
    place = next(place for place in office.table.rows if place[1] == f"{TASK}|task")
    office.table.rows[place]["Facts"] = "{"
    assert "|task" in (await office.get(f"/rejected/{line['id']}")).json["why"]
