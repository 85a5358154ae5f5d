"""Events of tasks whose version of the workflow is another than the newest, or is not deployed."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.interventions import cancellation
from tests.fakes.tasks import told
from tests.fakes.workflows import TASK, Approval, step, workflow
from tests.unit.api.conftest import Api
from tests.unit.api.samples import problem
from tests.unit.api.test_events import BOOKINGS, PATH, YES, waiting


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
