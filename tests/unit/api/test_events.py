"""An event is recorded once, from a bearer of its role, by the model of the recorded version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ConfigDict

from functions.pattern.definition import Workflow
from functions.pattern.records import TaskRecord
from functions.pattern.states import StepState
from tests.fakes.asgi import AsgiClient
from tests.fakes.guards import ANNA, BERT, SIGN_IN, operator, principal, submitter
from tests.fakes.interventions import cancellation, done
from tests.fakes.tasks import claimed, pending, skipped, started, told
from tests.fakes.workflows import TASK, Approval, awaiting, step, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem, wrong_fields


def _bookings(role: str = "Operator", version: int = 1) -> Workflow:
    flow = workflow(
        step("room", undo=True), awaiting("approve", "room", role=role), name="booking", resource="bookings"
    )
    return replace(flow, version=version)


BOOKINGS = _bookings()
PATH = f"/api/bookings/{TASK}/events/approve"
YES: Any = {"approved": True}
_NOBODY = "no event came by 2026-11-24 10:00:00 UTC"


def waiting(of: Workflow = BOOKINGS) -> TaskRecord:
    """Create a task that waits for its approval."""
    return told(pending(of), claimed(), *done("room"), started("approve", complete_by=3600))


@pytest.fixture
def client(api: Api) -> AsgiClient:
    """Serve bookings, one of which waits."""
    api.store.put(waiting())
    return api.serving(BOOKINGS)


async def test_event_completes_its_step_and_the_same_again_is_answered_alike(
    api: Api, client: AsgiClient
) -> None:
    """200 both times; it is recorded once."""
    answer = await client.post(PATH, YES)
    assert (answer.status, answer.json) == (200, {"id": TASK, "step": "approve", "state": "Completed"})
    assert api.store.record(TASK).steps[1].known_result == b'{"approved":true}'
    writes = api.store.writes
    assert await client.post(PATH, YES) == answer
    assert api.store.writes == writes


async def test_event_counts_before_its_step_has_begun(api: Api, client: AsgiClient) -> None:
    """As soon as the task is recorded."""
    api.store.put(pending(BOOKINGS))
    assert (await client.post(PATH, YES)).json["state"] == "NotStarted"
    assert api.store.record(TASK).steps[1].received == b'{"approved":true}'


async def test_another_event_is_refused(client: AsgiClient) -> None:
    """The first one counts."""
    await client.post(PATH, YES)
    answer = problem(await client.post(PATH, {"approved": False}), 409)
    assert answer["detail"] == "Another event was told for this step before."


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (told(waiting(), cancellation()), "It has ended, or is being undone."),
        (
            told(pending(BOOKINGS), claimed(), *done("room"), skipped("approve")),
            "It has ended, or is being undone.",
        ),
        (
            waiting().with_step(
                replace(
                    waiting().steps[1],
                    state=StepState.FAILED,
                    error="no event came by 2026-11-24 10:00:00 UTC",
                )
            ),
            f"The step has ended: {_NOBODY}.",
        ),
        (
            waiting().with_step(replace(waiting().steps[1], state=StepState.SKIPPED)),
            "The step has ended: it was not needed, or went on without.",
        ),
    ],
    ids=["undone", "processed", "expired", "not needed"],
)
async def test_event_that_comes_too_late_is_told_why(
    api: Api, client: AsgiClient, record: TaskRecord, reason: str
) -> None:
    """409, and nothing changes."""
    api.store.put(record)
    assert problem(await client.post(PATH, YES), 409)["detail"] == reason
    assert api.store.record(TASK) == record


async def test_body_is_checked_strictly_by_the_model(api: Api, client: AsgiClient) -> None:
    """422 names the fields; what is no object is none, and "no" is no bool: it would count as true."""
    for text in ("no", "false", "0", 0):
        assert wrong_fields(await client.post(PATH, {"approved": text})) == ["approved"]
    assert wrong_fields(await client.post(PATH, {"approved": True, "by": "me"})) == ["by"]
    assert wrong_fields(await client.post(PATH, {})) == ["approved"]
    problem(await client.post(PATH, []), 422)
    assert api.store.record(TASK).steps[1].received is None


@pytest.mark.parametrize("path", ["unknown/events/approve", f"{TASK}/events/room", f"{TASK}/events/other"])
async def test_only_a_recorded_task_and_a_step_that_waits_take_events(client: AsgiClient, path: str) -> None:
    """Before, or elsewhere: 404."""
    problem(await client.post(f"/api/bookings/{path}", YES), 404)


async def test_event_is_bounded(api: Api) -> None:
    """As results are; what is too large is not looked at any further."""

    class Note(Approval):
        text: str

    flow = replace(BOOKINGS, steps=(BOOKINGS.steps[0], replace(BOOKINGS.steps[1], payload=Note)))
    api.store.put(waiting(flow))
    problem(await api.serving(flow).post(PATH, {"other": 1, "text": "x" * 24 * 1024}), 413)


@pytest.mark.parametrize(
    ("role", "who", "status"),
    [
        ("Operator", operator(BERT), 200),
        ("Operator", submitter(ANNA), 403),
        ("Submitter", submitter(ANNA), 200),
        ("Submitter", submitter(BERT), 404),
        ("Submitter", operator(BERT), 403),
        ("Submitter", principal(BERT, "Operator", "Submitter"), 403),
        ("Operator", principal(BERT), 403),
        ("Approver", principal(BERT, "Approver"), 200),
        ("Approver", principal(BERT, "Reviewer"), 404),
        ("Approver", operator(BERT), 403),
        ("Approver", submitter(ANNA), 403),
        ("Approver", principal(BERT, "Submitter", "Reviewer"), 404),
        ("Operator", principal(BERT, "Approver"), 404),
        ("Operator", {}, 401),
    ],
)
async def test_only_the_steps_role_tells_its_event(role: str, who: dict[str, str], status: int) -> None:
    """A submitter that of its own tasks only; of others it does not even hear that they are there."""
    assert (await _client(role, who).post(PATH, YES)).status == status


@pytest.mark.parametrize(
    ("role", "who", "status"),
    [
        ("Approver", principal(BERT, "Approver"), 200),
        ("Approver", submitter(ANNA), 200),
        ("Approver", operator(BERT), 200),
        ("Approver", submitter(BERT), 404),
        ("Approver", principal(BERT, "Reviewer"), 404),
        ("Submitter", submitter(BERT), 404),
    ],
)
async def test_awaited_event_is_shown_to_its_role_and_to_whoever_sees_the_task(
    role: str, who: dict[str, str], status: int
) -> None:
    """For others it is not there."""
    assert (await _client(role, who).get(PATH)).status == status


async def test_bearer_of_a_role_sees_that_step_and_nothing_else() -> None:
    """Neither the payload nor another step nor the task, and no event of another role."""
    client = _client("Approver", principal(BERT, "Approver"))
    shown = (await client.get(PATH)).json
    assert shown == {
        "id": TASK,
        "step": "approve",
        "role": "Approver",
        "state": "Running",
        "since": "2026-11-21T10:00:00.123457Z",
        "complete_by": "2026-11-21T11:00:00.123456Z",
        "body": Approval.model_json_schema(),
    }
    for path in (f"{TASK}/events/room", "unknown/events/approve"):
        problem(await client.get(f"/api/bookings/{path}"), 404)
    for task in (TASK, "unknown"):
        problem(await client.get(f"/api/bookings/{task}"), 403)
    problem(await client.delete(f"/api/bookings/{TASK}"), 403)
    problem(await client.post("/api/bookings", {"weight": 3}), 403)


async def test_submitter_with_a_role_besides_sees_no_more_of_others_tasks() -> None:
    """Of the task, 404 as for one that is not there."""
    client = _client("Approver", principal(BERT, "Submitter", "Approver"))
    assert (await client.get(PATH)).status == 200
    problem(await client.get(f"/api/bookings/{TASK}"), 404)
    problem(await client.delete(f"/api/bookings/{TASK}"), 404)


async def test_awaited_event_is_shown_while_its_version_is_not_deployed(api: Api) -> None:
    """Without the schema of what can be told."""
    api.store.put(waiting())
    shown = (await api.serving(replace(BOOKINGS, version=2)).get(PATH)).json
    assert (shown["state"], shown["body"]) == ("Running", None)


async def test_role_of_a_version_that_is_not_deployed_is_told_to_try_again() -> None:
    """What is recorded says which role it takes."""
    api = Api(SIGN_IN)
    api.store.put(waiting(_bookings("Approver")))
    app = api.application_of(replace(_bookings("Manager"), version=2))
    problem(await AsgiClient(app, principal(BERT, "Approver")).post(PATH, YES), 503)


async def test_who_told_an_event_is_recorded() -> None:
    """The first who did: the same again changes nothing."""
    api, flow = Api(SIGN_IN), _bookings("Approver")
    api.store.put(waiting(flow))
    for who in (BERT, ANNA):
        client = AsgiClient(api.application_of(flow), principal(who, "Approver"))
        assert (await client.post(PATH, YES)).status == 200
    assert api.store.record(TASK).steps[1].told_by == BERT


def _client(role: str, who: dict[str, str]) -> AsgiClient:
    """Ask as this one, where the event of a task of Anna's takes this role."""
    api, flow = Api(SIGN_IN), _bookings(role)
    record = waiting(flow)
    api.store.put(replace(record, order=replace(record.order, submitter=ANNA)))
    return AsgiClient(api.application_of(flow), who)


class _Signed(Approval):
    """The event's model after a deployment: with an optional field more, which needs no version."""

    by: str | None = None


async def test_event_told_again_after_a_deployment_is_the_same(api: Api) -> None:
    """What counts is what was sent, not what a model makes of it."""
    api.store.put(waiting())
    assert (await api.serving(BOOKINGS).post(PATH, YES)).status == 200
    changed = replace(BOOKINGS, steps=(BOOKINGS.steps[0], replace(BOOKINGS.steps[1], payload=_Signed)))
    assert (await api.serving(changed).post(PATH, YES)).status == 200
    assert (await api.serving(changed).post(PATH, YES | {"by": "anna"})).status == 409


class _Checked(Approval):
    """An event's model with what has no JSON schema."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    seal: range | None = None


async def test_awaited_event_is_shown_without_a_schema_where_its_model_has_none(api: Api) -> None:
    """What can be told is for the bearer to know; when, is shown."""
    api.store.put(waiting())
    changed = replace(BOOKINGS, steps=(BOOKINGS.steps[0], replace(BOOKINGS.steps[1], payload=_Checked)))
    answer = await api.serving(changed).get(PATH)
    assert (answer.status, answer.json["state"], answer.json["body"]) == (200, "Running", None)


async def test_model_is_the_recorded_versions(api: Api) -> None:
    """While that is not deployed, the caller tries again later."""
    api.store.put(waiting())

    class Signed(Approval):
        by: str

    newer = replace(
        BOOKINGS, version=2, steps=(BOOKINGS.steps[0], replace(BOOKINGS.steps[1], payload=Signed))
    )
    assert (await api.serving(BOOKINGS, newer).post(PATH, YES)).status == 200
    api.store.put(waiting())
    problem(await api.serving(newer).post(PATH, YES), 503)
    in_place = replace(BOOKINGS, steps=(BOOKINGS.steps[0], step("approve", "room")))
    problem(await api.serving(in_place, newer).post(PATH, YES), 503)


async def test_event_of_a_version_before_is_refused_for_now_where_none_waits_any_more(api: Api) -> None:
    """503, not 404: the task waits for it, and hosts with its version run beside this one, or come back."""
    api.store.put(waiting())
    client = api.serving(replace(workflow(step("room"), name="booking", resource="bookings"), version=2))
    problem(await client.post(PATH, YES), 503)
    assert (await client.get(PATH)).json["state"] == "Running"


async def test_teller_who_is_turned_away_is_noted_once(api: Api) -> None:
    """By that, the step is awaited for longer, and whoever asks again and again writes nothing."""
    api.store.put(waiting())
    client, before = api.serving(replace(BOOKINGS, version=2)), api.store.writes
    for _ in range(3):
        problem(await client.post(PATH, YES), 503)
    assert api.store.writes == before + 1
    assert api.store.record(TASK).steps[1].turned_away_at is not None


async def test_what_is_known_is_told_where_the_version_is_gone(api: Api) -> None:
    """What was recorded, or comes too late, is not tried again for ever: the version may never come back."""
    api.store.put(waiting())
    assert (await api.serving(BOOKINGS).post(PATH, YES)).status == 200
    gone = api.serving(replace(BOOKINGS, version=2))
    assert (await gone.post(PATH, YES)).json["state"] == "Completed"
    other = problem(await gone.post(PATH, {"approved": False}), 409)
    assert other["detail"] == "Another event was told for this step before."
    api.store.put(told(waiting(), cancellation(by_operator=True)))
    ended = problem(await gone.post(PATH, YES), 409)
    assert ended["detail"] == "It has ended, or is being undone."
