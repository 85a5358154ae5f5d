"""The Agents of a delivery: what each asks of its service, and what it makes of the answer."""

from __future__ import annotations

import json

import pytest

from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError
from functions.pattern.identity import EffectKey, TaskId
from functions.pattern.ports import AgentCall, ReadingAgent, UndoingAgent
from functions.workflows.deliveries.agents import AGENTS
from tests.fakes.remote_service import Answer
from tests.fakes.tasks import after
from tests.unit.conftest import Service

CONFIRMATIONS: dict[str, Json] = {
    "package": {"tracking_number": "PK1"},
    "transport": {"carrier": "Northway Couriers", "price": "21.92", "currency": "EUR"},
    "drone": {"drone": "drone-07"},
    "delivery": {"expected_at": "2026-11-21T13:30:00Z"},
}
CANCELLABLE = ["package", "drone", "delivery"]

each_booking = pytest.mark.parametrize(("agent", "confirmation"), CONFIRMATIONS.items())


def _call(request: Json, key: str = "task-1/step/do") -> AgentCall:
    return AgentCall(task=TaskId("task-1"), effect_key=EffectKey(key), request=request, complete_by=after(10))


def _undoing(agent: str, service: Service) -> UndoingAgent:
    made = AGENTS[agent](service.caller())
    assert isinstance(made, UndoingAgent)
    return made


def _saying(content: object) -> Answer:
    return Answer(200, pieces=(json.dumps(content).encode(),))


def _asked(service: Service) -> list[tuple[str, str, str | None]]:
    return [(each.method, each.path, each.headers.get("Idempotency-Key")) for each in service.received]


@each_booking
@pytest.mark.parametrize("status", [201, 204], ids=["made", "made before"])
async def test_booking_gives_what_was_confirmed(
    agent: str,
    confirmation: Json,
    status: int,
    service: Service,
) -> None:
    """It asks for it, whether it was the first to book or an answer of the service was lost before."""
    service.answers = [Answer(status, pieces=()), _saying({"order": 1, **confirmation, "undone_at": None})]
    assert await AGENTS[agent](service.caller()).do(_call({"weight_kg": 3})) == confirmation
    assert _asked(service) == [
        ("PUT", "/payments/task-1", "task-1/step/do"),
        ("GET", "/payments/task-1", None),
    ]
    assert json.loads(service.received[0].body) == {"weight_kg": 3}


@each_booking
@pytest.mark.parametrize("emptied", [True, False], ids=["empty", "null"])
async def test_confirmation_that_does_not_fit_is_for_good(
    agent: str,
    confirmation: Json,
    emptied: bool,  # noqa: FBT001 - a parameter of the test
    service: Service,
) -> None:
    """The error names the first field that is wrong, and not what was answered."""
    first, *_ = confirmation
    service.answers = [Answer(204, pieces=()), _saying({} if emptied else dict.fromkeys(confirmation))]
    with pytest.raises(PermanentError, match=rf"^the answer does not fit \({first}: .+\)$"):
        await AGENTS[agent](service.caller()).do(_call({}))


@each_booking
async def test_operators_confirmation_is_read_like_the_services(
    agent: str, confirmation: Json, service: Service
) -> None:
    """What an operator says that was booked."""
    booking = AGENTS[agent](service.caller())
    assert isinstance(booking, ReadingAgent)
    assert booking.read({**confirmation, "more": 1}).keys() == confirmation.keys()
    with pytest.raises(PermanentError, match=r"^the answer does not fit"):
        booking.read({})


@each_booking
async def test_refused_booking_is_for_good(agent: str, confirmation: Json, service: Service) -> None:
    """Such as by a tombstone; nothing is asked after it."""
    service.answers = [Answer(410, pieces=()), _saying(confirmation)]
    with pytest.raises(PermanentError, match="answered 410"):
        await AGENTS[agent](service.caller()).do(_call({}))
    assert len(service.received) == 1


@pytest.mark.parametrize("agent", CANCELLABLE)
async def test_undo_deletes_what_was_booked(agent: str, service: Service) -> None:
    """Under the key of the undo."""
    service.answers = [Answer(204, pieces=())]
    await _undoing(agent, service).undo(_call({}, "task-1/step/undo"))
    assert _asked(service) == [("DELETE", "/payments/task-1", "task-1/step/undo")]


async def test_active_account_may_be_used(service: Service) -> None:
    """The account in the request is looked at, and nothing is changed."""
    service.answers = [_saying({"id": "A-7", "suspended": False})]
    assert await AGENTS["account"](service.caller()).do(_call({"account": "A-7"})) == {}
    assert _asked(service) == [("GET", "/payments/A-7", None)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"id": "A-7", "suspended": True}, "account A-7 is suspended$"),
        *(
            (answer, r"the answer does not fit \(suspended: ")
            for answer in ({}, {"suspended": "no"}, {"suspended": 0})
        ),
    ],
)
async def test_suspended_account_is_refused_for_good(answer: object, reason: str, service: Service) -> None:
    """The error names the account, or the field that the answer lacks."""
    service.answers = [_saying(answer)]
    with pytest.raises(PermanentError, match=f"^{reason}"):
        await AGENTS["account"](service.caller()).do(_call({"account": "A-7"}))


def test_agents_that_cannot_undo_say_so(service: Service) -> None:
    """Neither of them changes anything."""
    for agent in AGENTS.keys() - CANCELLABLE:
        assert not isinstance(AGENTS[agent](service.caller()), UndoingAgent)
