"""Texts are recorded and shown without secrets, whoever made them, and however they write those."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, get_args

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, SecretStr, field_validator

from functions.pattern.cleaning import TEXTS, line_to_be_shown, to_be_shown
from functions.pattern.completion import rules_of
from functions.pattern.contents import Contents, without_secrets_of
from functions.pattern.definition import Json, Registry, Step, Workflow
from functions.pattern.events import Event, MessageLost, Parked
from functions.pattern.folding import Told, fold
from functions.pattern.hiding import HIDDEN
from functions.pattern.identity import Birth, StepName, scheduler_id
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.planning import Runner, plan
from functions.pattern.readiness import Definitions
from functions.pattern.records import Decision, TaskRecord
from functions.pattern.states import Direction
from functions.pattern.texts import excerpt
from functions.pattern.transitions import admit
from tests.fakes.clock import START
from tests.fakes.purchases import CANARY, PAY, PURCHASES, purchase
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, started, told
from tests.fakes.workflows import TASK

#: Texts of events that are no sentences: names, ids, tokens.
_NAMES = {"behind", "cause", "message_id", "queue", "token", "traceparent", "who"}


def test_no_text_of_an_event_is_forgotten() -> None:
    """Whoever adds one says here that it is a name, or it is cleaned."""
    kinds = get_args(Event)
    texts = {each.name for kind in kinds for each in fields(kind) if "str" in str(each.type)}
    assert Parked in kinds
    assert texts == {"error", "fault", "lasting", "reason"} | _NAMES
    assert texts - _NAMES <= TEXTS


SECRET = Field(json_schema_extra={"writeOnly": True})


class Kind(Enum):
    """Is written by its value."""

    GIFT = "gift-c4n4ry"


class Wish(BaseModel):
    """Writes its secrets in other ways than its caller."""

    model_config = ConfigDict(extra="allow")

    card: Annotated[str, AfterValidator(lambda number: number.replace(" ", "")), SECRET] = ""
    key: SecretStr = SecretStr("")
    words: Annotated[RootModel[set[str]], SECRET] = RootModel[set[str]](set())
    kinds: Annotated[dict[str, tuple[Kind, ...]], SECRET] = {}


def _request(wish: Wish, _results: Mapping[StepName, Json]) -> Json:
    return {"card": wish.card, "beside": wish.model_extra}


WISHES = Workflow(
    name="wish",
    resource="wishes",
    payload=Wish,
    steps=(Step(PAY, agent="pay", request=_request, complete_within=10),),
)


def _wish(**payload: Any) -> TaskRecord:
    message = SubmissionMessage(
        task_id=TASK, workflow="wish", payload=payload, submitter="ann", submitted_at=START
    )
    record = admit(order_of(message, WISHES, Birth("0a1b2c3d")), pick_up_by=after(30))
    return told(record, claimed(), started("pay"))


def _after(workflow: Workflow, record: TaskRecord, event: Event) -> TaskRecord:
    return fold(record, [Told(event)], START, rules_of(Registry((workflow,), {}))).record


def test_secret_that_its_model_writes_in_another_way_is_hidden() -> None:
    """The functions get nothing else."""
    payload = {"card": "4111 abcd", "words": ["w0rd"], "kinds": {"a": ["gift-c4n4ry"]}, "beside": "s0me"}
    record = _wish(**payload)
    shown = Contents(Registry((WISHES,), {}), record).request(PAY, Direction.DO)
    assert shown == {"card": HIDDEN, "beside": {"beside": HIDDEN}}
    ended = _after(WISHES, record, failed("pay", error="no 4111abcd, w0rd, gift-c4n4ry, s0me"))
    assert ended.steps[0].error == f"no {HIDDEN}, {HIDDEN}, {HIDDEN}, {HIDDEN}"


@pytest.mark.parametrize(
    ("secret", "said", "recorded"),
    [
        ("pässword", json.dumps({"wrong": "pässword"}), f'{{"wrong": "{HIDDEN}"}}'),
        ("key-12345678-top", "no such key key-12345678-top: 1234 5678", f"no such key {HIDDEN}: …"),
        ("BEGIN\nKEY  END", "no such key\n BEGIN\nKEY  END", f"no such key {HIDDEN}"),
        ("long" * 300, f"no {'long' * 300}", f"no {HIDDEN}…"),
        ("long" * 300, f"{'x' * 9_000} {'long' * 300}", f"{'x' * 499}…"),
    ],
)
def test_secret_is_taken_out_of_an_answer_before_that_is_changed(
    secret: str, said: str, recorded: str
) -> None:
    """Before it is cut, written in one line, and long numbers are left out."""
    ended = _after(WISHES, _wish(key=secret), failed("pay", error=excerpt(said.encode())))
    assert ended.steps[0].error == recorded


def test_text_is_hidden_of_an_order_whose_model_has_no_schema() -> None:
    """It does not say what is secret; of others, only that is hidden."""

    class Odd(BaseModel):
        """Holds what JSON does not have."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        field: Registry

    assert without_secrets_of(Odd, b'{"field": "s0me"}', "no s0me") == HIDDEN
    assert without_secrets_of(Wish, b'{"key": "s0me"}', "no s0me") == f"no {HIDDEN}"


def _answer(bought: Any, _results: Any) -> Json:
    raise ValueError(f"no answer for {bought.card.number.get_secret_value()}")


def test_secret_in_the_error_of_an_answer_is_not_recorded() -> None:
    """`answer` is a function of the definition as any other."""
    flow = replace(PURCHASES, steps=PURCHASES.steps[:1], answer=_answer)
    ended = _after(flow, told(purchase(TASK, flow), claimed(), started("pay")), completed("pay"))
    assert ended.task.last_error == f"its answer can't be given: ValueError: no answer for {HIDDEN}"


class Changed(BaseModel):
    """Refuses what it took before."""

    amount: int
    card: Annotated[dict[str, str], SECRET]

    @field_validator("card")
    @classmethod
    def _known(cls, card: dict[str, str]) -> dict[str, str]:
        raise ValueError(f"{card['number']} is no card")


def _broken(bought: Any, _results: Any) -> Json:
    raise KeyError(bought.card.number.get_secret_value())


_OTHER = replace(PURCHASES.steps[0], request=_broken, idempotent=False)
RUNNER = Runner(
    epoch=FIRST,
    scheduler=scheduler_id(TASK, FIRST),
    activity=1,
    at_once=16,
    ends_at=after(300),
    start_within=timedelta(seconds=30),
    pick_up_within=timedelta(),
    new_id=lambda: "id",
)


@pytest.mark.parametrize(
    ("deployed", "reason"),
    [
        (replace(PURCHASES, payload=Changed), f"deployed here: card: Value error, {HIDDEN} is no card"),
        (replace(PURCHASES, steps=(_OTHER, *PURCHASES.steps[1:])), f"'pay': KeyError: '{HIDDEN}'"),
    ],
)
def test_secret_in_the_reason_of_parking_is_not_recorded(deployed: Workflow, reason: str) -> None:
    """After a deployment, a validator or a request of another definition says what it was given."""
    record = told(purchase(TASK), claimed())
    look = Definitions(Registry((deployed,), {}), record).look_at
    [parked] = plan(record, RUNNER, START, look_at=look, is_first=True, may_share=False).events
    assert (_after(deployed, record, parked).task.last_error or "").endswith(reason)


def test_reason_of_parking_says_what_is_missing_where_that_says_what_is_secret() -> None:
    """Only what is ours of it."""
    deployed = replace(PURCHASES, steps=PURCHASES.steps[:1])
    parked = Parked(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        reason=f"step 'confirm' is not deployed here: {CANARY}",
        lasting="step 'confirm' is not deployed here",
    )
    ended = _after(deployed, told(purchase(TASK), claimed()), parked)
    assert ended.task.last_error == parked.lasting


def test_secret_in_the_reason_of_a_dead_letter_is_not_recorded() -> None:
    """Another team's Agent says why it took no request; the reason is cut afterwards."""
    reason = f"{'x' * 1_020}{CANARY}"
    lost = _after(PURCHASES, purchase(TASK), MessageLost(queue="q", message_id="m", reason=reason)).lost
    assert lost[0].reason == f"{'x' * 1_020}(…"


def test_record_is_shown_without_secrets_that_were_marked_since() -> None:
    """In whichever of its parts they stand; a task without them is shown as it is."""
    begun = told(purchase(TASK), claimed(), started("pay"))
    record = told(begun, failed("pay", error=f"no: {CANARY}"))
    decision = Decision(ended_by=None, who="ann", reason=CANARY)
    record = replace(record, task=replace(record.task, decision=decision))
    record = told(record, MessageLost(queue="q", message_id="m", reason=CANARY))
    shown = to_be_shown(Registry((PURCHASES,), {}), record)
    assert CANARY in str([record.task, record.steps, record.lost])
    assert CANARY not in str([shown.task, shown.steps, shown.history, shown.lost])
    assert to_be_shown(Registry((), {}), record) == record


def test_line_of_a_list_costs_no_more_for_what_is_not_on_it() -> None:
    """A page has fifty of them: of each, its own text alone is cleaned, whatever its steps say."""
    held = told(purchase(TASK), claimed(), started(PAY), failed(PAY, error=f"no: {CANARY}"))
    held = replace(held, task=replace(held.task, last_error=f"pay: no: {CANARY}"))
    shown = line_to_be_shown(Registry((PURCHASES,), {}), held)
    assert shown.task.last_error == f"pay: no: {HIDDEN}"
    assert shown.steps is held.steps
