"""Operators list rejected messages, read them without secrets, send them again and discard them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import StepName, TaskId
from functions.pattern.rejected import About, Content, Labels, SentByAnotherError
from functions.pattern.secret_fields import HIDDEN
from functions.pattern.sent_again import resent
from tests.fakes.clock import START
from tests.fakes.purchases import CANARY, PAYLOAD, PURCHASES, purchase
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE, TASK
from tests.unit.api.samples import problem, wrong_fields
from tests.unit.operations.conftest import Desk

REASON = {"reason": "the workflow is deployed now"}


async def _listed(desk: Desk, query: str = "") -> list[dict[str, Any]]:
    answer = await desk.get(f"/rejected{query}")
    assert answer.status == 200
    messages: list[dict[str, Any]] = answer.json["messages"]
    return messages


async def test_rejected_messages_are_listed_latest_first(desk: Desk) -> None:
    """Of all queues, or of one, with all that a page shows of them."""
    about = About(task=TaskId("order-1"), step=StepName("pay"), agent="payment")
    await desk.rejected.reject("submissions", "m-1", b"{", "not JSON", about=about)
    desk.clock.advance(1)
    await desk.rejected.reject("agent-replies/$DeadLetterQueue", "m-2", b"{}", "expired")
    assert [each["message_id"] for each in await _listed(desk)] == ["m-2", "m-1"]
    [line] = await _listed(desk, "?queue=submissions")
    assert line.pop("id")
    assert line.pop("rejected_at")
    assert line == {
        "queue": "submissions",
        "message_id": "m-1",
        "size": 1,
        "whole": True,
        "reason": "not JSON",
        "task": "order-1",
        "step": "pay",
        "agent": "payment",
        "resends": 0,
        "resent_by": None,
        "resent_why": None,
        "resent_at": None,
        "discarded_by": None,
        "discarded_why": None,
        "discarded_at": None,
    }


async def test_events_that_were_set_aside_are_found_by_their_hub(desk: Desk) -> None:
    """As the messages of a queue are."""
    for source in ("eventhub|order-events", "submissions"):
        await desk.rejected.reject(source, "3/17", b"{", "why")
    [line] = await _listed(desk, "?queue=eventhub%7Corder-events")
    assert (line["queue"], line["message_id"]) == ("eventhub|order-events", "3/17")


@pytest.mark.parametrize("name", ["notices-demo", "notices-demo/$DeadLetterQueue"])
async def test_dead_letters_are_found_by_the_name_of_their_queue(desk: Desk, name: str) -> None:
    """As what was rejected there is, whichever of the two names is given."""
    for queue in ("notices-demo", "notices-demo/$DeadLetterQueue", "notices-demo-2", "submissions"):
        await desk.rejected.reject(queue, "m-1", b"{", "why")
    found = {each["queue"] for each in await _listed(desk, f"?queue={name}")}
    assert found == {"notices-demo", "notices-demo/$DeadLetterQueue"}


@pytest.mark.parametrize("queue", ["submissions", "submissions/$DeadLetterQueue", "eventhub|order-events"])
async def test_message_is_sent_again_whole(desk: Desk, queue: str) -> None:
    """To its queue, or the orders', under a new id each time; who did it, and why, is kept."""
    labels = Labels(subject="line", correlation_id="c-7", properties={"tenant": "blue"})
    await desk.rejected.reject(queue, "m-1", b"body", "why", labels)
    [line] = await _listed(desk)
    for _ in range(2):
        answer = await desk.post(f"/rejected/{line['id']}/resend", REASON)
        assert answer.status == 202
    assert [(each[0], *each[2:]) for each in desk.postbox.sent] == [
        ("submissions", Content(b"body", labels), None)
    ] * 2
    assert len({"m-1", *(message_id for _, message_id, _, _ in desk.postbox.sent)}) == 3
    [line] = await _listed(desk)
    assert (line["resends"], line["resent_by"], line["resent_why"]) == (2, "operator", REASON["reason"])


async def test_message_that_another_sends_at_this_moment_is_not_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no failure of a service, after which the same is asked for again: a notice would be doubled."""

    async def lost(message: str, *_: str) -> None:
        raise SentByAnotherError(message)

    monkeypatch.setattr(desk.rejected, "resending", lost)
    answer = problem(await desk.post(f"/rejected/{'0' * 64}/resend", REASON), 409)
    assert answer["detail"].startswith("Another operator has sent it again")
    assert desk.postbox.sent == []


async def test_message_of_which_only_the_beginning_is_kept_is_not_sent(desk: Desk) -> None:
    """Half a message is another message."""
    desk.rejected._most = 10
    await desk.rejected.reject("submissions", "m-1", b"x" * 11, "why")
    [line] = await _listed(desk)
    assert (await desk.post(f"/rejected/{line['id']}/resend", REASON)).status == 409
    assert desk.postbox.sent == []


async def _shown(desk: Desk, body: bytes, queue: str = "submissions") -> dict[str, Any]:
    await desk.rejected.reject(queue, "m-1", body, "why")
    [line] = await _listed(desk)
    shown: dict[str, Any] = (await desk.get(f"/rejected/{line['id']}")).json
    assert shown == line | {name: shown[name] for name in ("body", "more", "why")}
    return shown


TOKEN = "0f8fad5bd9cb469fa16570867728950e"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b'{"id": "order-1",\n\t"amount": 4.90', '{"id": "order-1",\n\t"amount": 4.90'),
        ("grün \u202egnp \x1b[2J".encode(), "grün �gnp �[2J"),
        (b"caf\xe9", "caf�"),
        (f'{{"token":"{TOKEN}","an":"ü"}}'.encode(), '{"token": "(hidden)", "an": "ü"}'),
        (b'{"token": "short", "token": ["a"], "n": NaN}', '{"token": "(hidden)", "n": NaN}'),
        (rb'{"\u0074oken": null}', '{"token": "(hidden)"}'),
        (b'{"reply": {"token": "short"}}', '{"reply": {"token": "short"}}'),
        (b'{"n": 1, "token": "0f8f ad5b', '{"n": 1, "token": "0f8f ad5b'),
        ('{"token": "x"}'.encode("utf-16"), None),
    ],
)
async def test_token_of_a_message_is_hidden(desk: Desk, body: bytes, text: str | None) -> None:
    """The field of this name, however it is written; a resend contains it."""
    shown = await _shown(desk, body, "agent-replies")
    assert (shown["body"], shown["more"]) == (text, False)
    assert (await desk.post(f"/rejected/{shown['id']}/resend", REASON)).status == 202
    assert desk.postbox.sent[0][2].body == body


@pytest.mark.parametrize(
    ("length", "kept", "shown"), [(65_536, 99_999, 65_536), (65_537, 99_999, 65_536), (30, 10, 10)]
)
async def test_body_is_shown_up_to_a_bound(desk: Desk, length: int, kept: int, shown: int) -> None:
    """Also where only the beginning is kept."""
    desk.rejected._most = kept
    found = await _shown(desk, length * b"x")
    assert (found["body"], found["more"]) == (shown * "x", shown < length)


async def test_unknown_message_is_not_found(desk: Desk) -> None:
    """Housekeeping has deleted it, or it never was."""
    assert (await desk.get(f"/rejected/{'0' * 64}")).status == 404
    assert (await desk.post(f"/rejected/{'0' * 64}/resend", REASON)).status == 404


async def test_resend_without_a_reason_is_refused(desk: Desk) -> None:
    """As every action of an operator."""
    assert (await desk.post(f"/rejected/{'0' * 64}/resend", {})).status == 422
    assert wrong_fields(await desk.post("/rejected/x/resend", REASON)) == ["id"]


async def test_resend_while_service_bus_is_away_can_be_repeated(desk: Desk) -> None:
    """It is recorded before it is sent; the second attempt has an id of its own."""
    await desk.rejected.reject("submissions", "m-1", b"body", "why")
    [line] = await _listed(desk)
    desk.postbox.failing = True
    assert (await desk.post(f"/rejected/{line['id']}/resend", REASON)).status == 503
    desk.postbox.failing = False
    assert (await desk.post(f"/rejected/{line['id']}/resend", REASON)).status == 202
    second, _ = resent("m-1", Content(b"body", Labels()), 2)
    assert [message_id for _, message_id, _, _ in desk.postbox.sent] == [second]


async def test_list_is_read_page_by_page(desk: Desk) -> None:
    """The latest first; the next page begins with the messages of the time that ends the page before."""
    for number in range(120):
        desk.clock.advance(1)
        await desk.rejected.reject("submissions", f"m-{number}", b"{", "why")
    found: list[str] = []
    query, more = "", True
    while more:
        page = (await desk.get(f"/rejected{query}")).json
        names, more = [each["message_id"] for each in page["messages"]], page["more"]
        assert found[-1:] == names[: len(found[-1:])]
        found += names[len(found[-1:]) :]
        query = f"?until={page['messages'][-1]['rejected_at']}"
    assert found == [f"m-{number}" for number in reversed(range(120))]


async def test_time_that_is_none_is_refused(desk: Desk) -> None:
    """The answer names the parameter."""
    assert wrong_fields(await desk.get("/rejected?until=x")) == ["until"]


async def test_discarded_message_is_gone_but_for_what_is_known_of_it(desk: Desk) -> None:
    """Who did it, why, and what it was; its body is not kept."""
    await desk.rejected.reject("submissions", "m-1", b"{", "not JSON")
    [line] = await _listed(desk)
    answer = await desk.post(f"/rejected/{line['id']}/discard", REASON)
    assert answer.status == 202
    assert await _listed(desk) == []
    [kept] = await _listed(desk, "?discarded=true&queue=submissions")
    assert (kept["message_id"], kept["reason"], kept["size"]) == ("m-1", "not JSON", 1)
    assert (kept["discarded_by"], kept["discarded_why"]) == ("operator", REASON["reason"])
    for action in ("discard", "resend"):
        assert (await desk.post(f"/rejected/{line['id']}/{action}", REASON)).status == 404
    assert (await desk.get(f"/rejected/{line['id']}")).status == 404
    await desk.rejected.reject("submissions", "m-1", b"{", "not JSON")
    assert len(await _listed(desk)) == 1


async def test_all_of_a_queue_are_discarded_that_were_seen(desk: Desk) -> None:
    """A hundred with each request; what came later stays, and other queues' do."""
    await desk.rejected.reject("agent-replies", "m-0", b"{", "why")
    for number in range(150):
        queue = "submissions" if number % 2 else "submissions/$DeadLetterQueue"
        await desk.rejected.reject(queue, f"m-{number}", b"{", "why")
    until = (await _listed(desk))[0]["rejected_at"]
    desk.clock.advance(1)
    await desk.rejected.reject("submissions", "late", b"{", "why")
    asked = REASON | {"queue": "submissions", "until": until}
    answers = [(await desk.post("/rejected/discard", asked)).json for _ in range(3)]
    assert answers == [
        {"discarded": 100, "left": True},
        {"discarded": 50, "left": False},
        {"discarded": 0, "left": False},
    ]
    assert {each["message_id"] for each in await _listed(desk)} == {"m-0", "late"}


async def test_messages_of_later_hide_none_that_is_to_be_discarded(desk: Desk) -> None:
    """However many there are: who asks again while some are left would ask for ever."""
    for number in range(5_001):
        await desk.rejected.reject("submissions", f"late-{number}", b"{", "why")
    desk.clock.advance(-60)
    await desk.rejected.reject("submissions", "early", b"{", "why")
    asked = REASON | {"until": desk.clock.now().isoformat()}
    answers = [(await desk.post("/rejected/discard", asked)).json for _ in range(2)]
    assert answers == [{"discarded": 1, "left": False}, {"discarded": 0, "left": False}]


async def test_all_are_discarded_without_a_filter(desk: Desk) -> None:
    """Until now."""
    await desk.rejected.reject("agent-replies", "m-0", b"{", "why")
    assert (await desk.post("/rejected/discard", REASON)).json == {"discarded": 1, "left": False}
    for wrong in ("x", 5, "9999-12-31T23:59:59-14:00"):
        assert (await desk.post("/rejected/discard", REASON | {"until": wrong})).status == 422
    assert (await desk.post("/rejected/discard", {})).status == 422


ORDER = {"workflow": "purchase", "payload": dict(PAYLOAD), "submitter": "ann", "task_id": TASK}
REQUEST = {"task_id": TASK, "request": {"card": CANARY}}
_TEXT = json.dumps(ORDER)


@pytest.mark.parametrize(
    ("queue", "body", "shown"),
    [
        ("submissions", ORDER | {"version": 1}, True),
        ("submissions/$DeadLetterQueue", ORDER, True),
        ("eventhub|order-events", ORDER, True),
        ("eventhub|order-events", ORDER | {"workflow": "other"}, False),
        ("submissions", ORDER | {"payload": [CANARY]}, True),
        ("submissions", _TEXT.replace('"amount": 5', f'"amount": {5_000 * "5"}'), True),  # pydantic reads
        ("submissions", _TEXT.replace('"amount": 5', f'"amount": {250 * "["}{250 * "]"}'), True),  # none
        ("submissions", _TEXT.replace('"Ann"', '"\\ud83d"'), True),  # of the three
        ("submissions", "\ufeff" + _TEXT, True),
        ("submissions", ORDER | {"version": 2}, False),
        ("submissions", ORDER | {"version": [CANARY]}, False),
        ("submissions", ORDER | {"workflow": "other"}, False),
        ("submissions", {"payload": CANARY}, False),
        ("agent-replies", {"task_id": TASK, "result": {"for": CANARY}}, False),
        ("notices-demo", {"id": TASK, "answer": {"for": CANARY}}, False),
        ("agent-replies", {"task_id": "other", "result": CANARY}, False),
        ("agent-pay-requests", REQUEST, False),
    ],
)
async def test_body_is_shown_without_secrets(queue: str, body: Any, *, shown: bool) -> None:
    """Or not at all, where it is not known what is secret in it; the page says so."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    desk.holds(purchase(TASK))
    encoded = (body if isinstance(body, str) else json.dumps(body)).encode()
    found = await _shown(desk, encoded, queue)
    assert CANARY not in str(found)
    if shown:
        assert HIDDEN in found["body"]
        assert found["why"] is None
    else:
        assert found["body"] is None
        assert found["why"].startswith("Not shown: it")


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
    found = await _shown(desk, json.dumps(body).encode(), queue)
    assert found["body"] == (json.dumps(body) if shown else None)
    assert shown or "not deployed here" in found["why"]


@pytest.mark.parametrize(
    ("queue", "body", "workflow"),
    [
        ("submissions", '{"note": "1 < 2"', LINE),
        ("submissions", '["no object"]', LINE),
        ("submissions", '{"id": "no payload"}', LINE),
        ("agent-replies", "no JSON", PURCHASES),
        ("agent-replies", '{"task_id": ["x"],  "result": "no task"}', PURCHASES),
    ],
)
async def test_body_without_a_secret_field_is_shown_as_it_came(
    queue: str, body: str, workflow: Workflow
) -> None:
    """Where it is no JSON, no order, and about no task; spaces included."""
    desk = Desk(registry=Registry((workflow,), {}))
    assert (await _shown(desk, body.encode(), queue))["body"] == body


@pytest.mark.parametrize(
    "body",
    [
        _TEXT.replace('"amount": 5', f'"amount": {12_000 * "["}{12_000 * "]"}'),
        json.dumps(ORDER | {"submitter": dict(PAYLOAD)}),
        _TEXT[:-9],
        json.dumps(_TEXT),
        f"[{_TEXT}]",
        json.dumps(ORDER | {"card": PAYLOAD["card"]}),
        json.dumps({"workflow": "purchase", **PAYLOAD}),
    ],
)
async def test_body_that_is_no_order_is_not_shown_beside_secret_fields(body: str) -> None:
    """No model tells what of it is secret."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    found = await _shown(desk, body.encode(), "submissions")
    why = "Not shown: it is no order, and a deployed workflow has secret fields."
    assert (found["body"], found["why"]) == (None, why)


async def test_body_of_an_earlier_task_is_not_shown() -> None:
    """It was rejected before the task was submitted that has its id now."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    await desk.rejected.reject("agent-replies", "m-1", json.dumps(REQUEST).encode(), "why")
    record = purchase(TASK)
    desk.holds(replace(record, order=replace(record.order, submitted_at=START + timedelta(days=40))))
    [line] = (await desk.get("/rejected")).json["messages"]
    shown = (await desk.get(f"/rejected/{line['id']}")).json
    assert shown["why"] == (
        "Not shown: its task is not recorded here, and a deployed workflow has secret fields."
    )


async def test_body_of_a_task_that_cannot_be_read_is_not_shown() -> None:
    """Nor where a model does not say what is secret."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    desk.store.failure = UnreadableError("task-1|order", "damaged")
    shown = await _shown(desk, json.dumps({"task_id": TASK}).encode(), "agent-replies")
    assert (shown["body"], "damaged" in shown["why"]) == (None, True)


async def test_earlier_value_of_a_name_is_not_shown() -> None:
    """The last one counts, and the other one may be the secret."""
    desk = Desk(registry=Registry((PURCHASES,), {}))
    order = json.dumps(ORDER)[:-1] + ', "payload": {"amount": NaN}}'
    found = await _shown(desk, order.encode())
    assert CANARY not in found["body"]
    assert json.loads(found["body"])["submitter"] == "ann"


async def test_body_of_a_task_without_secret_fields_is_shown() -> None:
    """Though another workflow has some; spaces included."""
    desk = Desk(registry=Registry((PURCHASES, LINE), {}))
    desk.holds(pending(LINE))
    body = json.dumps({"task_id": TASK, "result": {"receipt": "R-1"}}, indent=2)
    assert (await _shown(desk, body.encode(), "agent-replies"))["body"] == body
