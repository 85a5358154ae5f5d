"""An event is recorded once, from a caller with the role of its step, by the model of the task's version."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator, SecretStr, create_model

from functions.core.record import OperationState
from functions.core.task_events import Resumed, StepSkipped, Suspended
from tests.fakes.asgi import AsgiClient
from tests.fakes.guards import ANNA, BERT, SIGN_IN, operator, principal, reader, submitter
from tests.unit.api.scene import (
    CANCELLED,
    TASK,
    Api,
    Approval,
    Priced,
    WithoutSchema,
    bookings,
    problem,
    wrong_fields,
)

BOOKINGS = bookings()
PATH = f"/api/bookings/{TASK}/events/approve"
YES: Any = {"approved": True}


@pytest.fixture
def api() -> Api:
    """Return an application with bookings."""
    return Api(BOOKINGS)


async def _event(api: Api) -> tuple[OperationState, str | None, str | None]:
    step = (await api.record()).step("approve")
    return step.do.state, step.event, step.event_by


async def test_event_completes_its_step_and_is_recorded_once(api: Api) -> None:
    """The same event again gets the same answer, and another one 409."""
    await api.wait_for_approval(BOOKINGS)
    answer = await api.client.post(PATH, YES)
    assert (answer.status, answer.json) == (200, {"id": TASK, "step": "approve", "state": "Completed"})
    recorded = (OperationState.DONE, '{"approved":true}', "tester")
    assert await _event(api) == recorded
    written = len(api.table.transactions)
    assert await api.client.post(PATH, YES) == answer
    assert len(api.table.transactions) == written
    other = problem(await api.client.post(PATH, {"approved": False}), 409)
    assert other["detail"] == "Another event was recorded for this step before."
    assert await _event(api) == recorded


async def test_event_counts_before_its_step_has_started_and_while_suspended(api: Api) -> None:
    """As soon as the task is on record; an operator has suspended it."""
    await api.admit(BOOKINGS)
    await api.change(Suspended(reason="wait", by_operator=True))
    assert (await api.client.post(PATH, YES)).json["state"] == "Not started"
    assert await _event(api) == (OperationState.NOT_STARTED, '{"approved":true}', "tester")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("undone", "The task has ended, or is being undone."),
        ("processed", "The task has ended, or is being undone."),
        ("expired", "The step has ended: no event arrived by 2026-11-21 11:00:00 UTC."),
        ("not needed", "The step has ended: it was not needed, or continued without the event."),
    ],
)
async def test_late_event_is_409_with_the_reason(state: str, reason: str) -> None:
    """Nothing changes."""
    api = Api(BOOKINGS)
    await (api.admit(BOOKINGS) if state == "processed" else api.wait_for_approval(BOOKINGS))
    if state == "undone":
        await api.change(CANCELLED)
    elif state == "processed":
        await api.run("room")
        await api.change(StepSkipped(epoch=1, step="approve"))
    else:
        _end_wait(api, is_expired=state == "expired")
    before = await api.record()
    assert problem(await api.client.post(PATH, YES), 409)["detail"] == reason
    assert await api.record() == before


def _end_wait(api: Api, *, is_expired: bool) -> None:
    """Change the row of the step: its wait has ended, and the task has not."""
    error = '"error":"no event arrived by 2026-11-21 11:00:00 UTC",'
    for (_, key), row in api.table.rows.items():
        if key.endswith("|step|approve"):
            state = f'{{{error}"state":"refused"' if is_expired else '{"state":"skipped"'
            row["Do"] = row["Do"].replace('{"state":"running"', state)


async def test_event_is_validated_strictly(api: Api) -> None:
    """The text "no" would be true. The fields are named."""
    await api.wait_for_approval(BOOKINGS)
    for value in ("no", "false", "0", 0):
        assert wrong_fields(await api.client.post(PATH, {"approved": value})) == ["approved"]
    assert wrong_fields(await api.client.post(PATH, {"approved": True, "by": "me"})) == ["by"]
    assert wrong_fields(await api.client.post(PATH, {})) == ["approved"]
    problem(await api.client.post(PATH, []), 422)
    assert (await _event(api))[1] is None


async def test_dates_are_texts_and_secrets_are_not_named() -> None:
    """Also below a validator, where pydantic requires a date that JSON does not have."""
    same: Any = BeforeValidator(lambda given: given)
    model = create_model("Day", day=(Annotated[date, same], ...), pins=(dict[SecretStr, int], {}))
    flow = bookings(event=model)
    api = Api(flow)
    await api.wait_for_approval(flow)
    answer = await api.client.post(PATH, {"day": "2026-11-24", "pins": {"c4n4ry": []}})
    assert wrong_fields(answer)[-1] == "pins"
    assert "c4n4ry" not in answer.body.decode()
    assert (await api.client.post(PATH, {"day": "2026-11-24"})).status == 200


async def test_event_with_a_small_number_is_recorded_once() -> None:
    """Python and the record write 0.00005 in two forms, and the same event gets the same answer."""
    api = Api(flow := bookings(event=create_model("Rate", rate=(float, ...))))
    await api.wait_for_approval(flow)
    answer = await api.client.post(PATH, {"rate": 0.00005})
    assert answer.status == 200
    assert await api.client.post(PATH, {"rate": 0.00005}) == answer


@pytest.mark.parametrize("path", ["unknown/events/approve", f"{TASK}/events/room", f"{TASK}/events/other"])
async def test_only_an_event_step_of_a_known_task_is_found(api: Api, path: str) -> None:
    """Everything else is 404, also the task of another resource."""
    await api.wait_for_approval(BOOKINGS)
    problem(await api.client.post(f"/api/bookings/{path}", YES), 404)
    problem(await api.client.get(f"/api/bookings/{path}"), 404)


@pytest.mark.parametrize(
    ("model", "wrong", "status", "right"),
    [
        (create_model("Note", text=(str, ...)), {"text": "x" * 30_000}, 413, {"text": "x" * 29_900}),
        (Priced, {"price": "free"}, 422, {"price": "1"}),
    ],
    ids=["too large", "the model fails"],
)
async def test_event_that_cannot_be_recorded_is_rejected(
    model: Any, wrong: Any, status: int, right: Any
) -> None:
    """By its bytes in the table, or with another error of its model than `ValueError`."""
    api = Api(flow := bookings(event=model))
    await api.wait_for_approval(flow)
    problem(await api.client.post(PATH, wrong), status)
    assert (await api.client.post(PATH, right)).status == 200


# Roles


async def _client(role: str, who: dict[str, str], submitted_by: str = ANNA) -> AsgiClient:
    """Return a client for a task of Anna's whose event requires a role."""
    api, flow = Api(bookings(role), guard=SIGN_IN), bookings(role)
    await api.wait_for_approval(flow, submitter=submitted_by)
    return api.serving(headers=who)


@pytest.mark.parametrize(
    ("role", "who", "shown", "sent"),
    [
        ("Operator", operator(BERT), 200, 200),
        ("Operator", submitter(ANNA), 200, 403),
        ("Operator", principal(BERT, "Approver"), 404, 404),
        ("Operator", principal(BERT), 403, 403),
        ("Operator", {}, 401, 401),
        ("Submitter", submitter(ANNA), 200, 200),
        ("Submitter", submitter(BERT), 404, 404),
        ("Submitter", operator(BERT), 200, 403),
        ("Submitter", principal(BERT, "Operator", "Submitter"), 200, 403),
        ("Approver", principal(BERT, "Approver"), 200, 200),
        ("Approver", principal(BERT, "Reviewer"), 404, 404),
        ("Approver", principal(BERT, "Submitter", "Reviewer"), 404, 404),
        ("Approver", operator(BERT), 200, 403),
        ("Approver", submitter(ANNA), 200, 403),
        ("Approver", reader(BERT), 200, 403),
    ],
)
async def test_only_the_role_of_the_step_sends_its_event(
    role: str, who: dict[str, str], shown: int, sent: int
) -> None:
    """It is shown to this role, and to callers that may see the task. Submitters have their own tasks."""
    client = await _client(role, who)
    assert (await client.get(PATH)).status == shown
    assert (await client.post(PATH, YES)).status == sent


async def test_403_names_the_role() -> None:
    """The caller lacks it, or is not the submitter of the task."""
    client = await _client("Approver", operator(BERT))
    assert "lacks the role Approver." in problem(await client.post(PATH, YES), 403)["detail"]
    client = await _client("Submitter", principal(BERT, "Operator", "Submitter"))
    assert "Only the submitter" in problem(await client.post(PATH, YES), 403)["detail"]


async def test_role_of_a_step_sees_only_this_step() -> None:
    """Neither the payload, nor another step, nor the task."""
    client = await _client("Approver", principal(BERT, "Approver"))
    assert (await client.get(PATH)).json == {
        "id": TASK,
        "step": "approve",
        "role": "Approver",
        "state": "Waiting",
        "since": "2026-11-21T10:00:00.123456Z",
        "complete_by": "2026-11-21T11:00:00.123456Z",
        "body": Approval.model_json_schema(),
    }
    for task in (TASK, "unknown"):
        problem(await client.get(f"/api/bookings/{task}"), 403)
    problem(await client.delete(f"/api/bookings/{TASK}"), 403)
    problem(await client.post("/api/bookings", {"weight": 3}), 403)
    both = await _client("Approver", principal(BERT, "Submitter", "Approver"))
    assert (await both.get(PATH)).status == 200
    problem(await both.get(f"/api/bookings/{TASK}"), 404)


# Versions


class Signed(Approval):
    """The event of a later version."""

    by: str


async def test_event_is_validated_by_the_model_of_the_recorded_version(api: Api) -> None:
    """Beside a newer version. A step without the model of the event counts as not deployed."""
    await api.wait_for_approval(BOOKINGS)
    newer = bookings(event=Signed, version=2)
    assert (await api.serving(newer, BOOKINGS).post(PATH, YES)).status == 200


async def test_event_of_a_version_that_is_not_deployed_is_503_and_the_task_is_suspended(api: Api) -> None:
    """Its deadline does not run, so the sender has more time. A repetition writes nothing."""
    await api.wait_for_approval(BOOKINGS)
    client = api.serving(bookings(event=Signed, version=2, name="other"))
    shown = (await client.get(PATH)).json
    assert (shown["state"], shown["body"]) == ("Waiting", None)
    for _ in range(3):
        answer = await client.post(PATH, YES)
        problem(answer, 503)
        assert answer.headers["retry-after"] == "5"
        written = len(api.table.transactions)
    assert len(api.table.transactions) == written
    suspension = (await api.record()).suspension
    assert suspension is not None
    assert not suspension.by_operator
    problem(await api.client.post(PATH, YES), 503)  # until it is resumed
    api.clock.advance(100)
    await api.change(Resumed())
    assert (await api.client.post(PATH, YES)).status == 200
    complete_by = (await api.record()).do("approve").complete_by
    assert complete_by is not None
    assert (complete_by - api.clock.now()).total_seconds() == 3600


async def test_known_event_needs_no_version(api: Api) -> None:
    """A repeated or late event is not sent again forever."""
    await api.wait_for_approval(BOOKINGS)
    assert (await api.client.post(PATH, YES)).status == 200
    client = api.serving(bookings(version=2))
    assert (await client.post(PATH, YES)).json["state"] == "Completed"
    problem(await client.post(PATH, {"approved": False}), 409)
    await api.change(CANCELLED)
    assert (await client.post(PATH, YES)).json["id"] == TASK
    assert (await api.record()).suspension is None


async def test_event_is_the_same_after_a_deployment(api: Api) -> None:
    """The body that was sent counts, not the model's defaults."""
    await api.wait_for_approval(BOOKINGS)
    assert (await api.client.post(PATH, YES)).status == 200
    changed = api.serving(bookings(event=create_model("More", __base__=Approval, by=(str | None, None))))
    assert (await changed.post(PATH, YES)).status == 200
    problem(await changed.post(PATH, YES | {"by": "anna"}), 409)


async def test_event_without_schema_is_shown_without_it() -> None:
    """The other fields are there."""
    flow = bookings(event=WithoutSchema)
    api = Api(flow)
    await api.wait_for_approval(flow)
    answer = await api.client.get(PATH)
    assert (answer.status, answer.json["state"], answer.json["body"]) == (200, "Waiting", None)
