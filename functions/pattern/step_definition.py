"""How a step of a workflow is defined, and what is wrong with a definition that can't work."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from functions.pattern import written
from functions.pattern.event_bodies import check_body
from functions.pattern.faults import first_fault
from functions.pattern.identity import StepName
from functions.pattern.items import MOST_STEPS
from functions.pattern.plain_json import plain_json
from functions.pattern.retry import Retry
from functions.pattern.shape import StepShape
from functions.pattern.states import Expiry, Remedy, Way

#: What names of workflows, resources, steps and Agents look like; they become part of keys, URLs and queues.
NAME_PATTERN = "[a-z][a-z0-9-]{0,31}"

#: What the name of a task's step looks like, which may be an item of a for-each step.
STEP_PATTERN = rf"{NAME_PATTERN}(\.\d{{1,2}})?"

#: A step's request or result: a JSON object.
Json = Mapping[str, Any]

#: The results of the steps that a step needs, and of those that they need, and of no others. What was
#: skipped has None.
Results = Mapping[StepName, Any]

#: Makes the Agent's request out of the order's payload and the results; of a for-each step, the item, too.
#: Which arguments it takes, is checked when the workflow is defined.
RequestMaker = Callable[..., Json]

#: Tells whether the order needs the step, or the item, by the same.
Condition = Callable[..., bool]

#: Gives the items of an order, by its payload; their order is their numbers', in every process.
Items = Callable[[Any], list[Any] | tuple[Any, ...]]

#: Tells, by the payload and the results, at which time a timer's step is done (with its time zone).
Time = Callable[[Any, Results], datetime]

#: The roles that are known by themselves: the submitter of the task, or any operator.
KNOWN_ROLES = ("Submitter", "Operator")

#: What a role looks like whose bearers may tell an event.
_ROLE = re.compile(r"[A-Z][A-Za-z0-9.-]{0,31}")

#: A default is a part of the task's shape.
_MOST_DEFAULT_BYTES = 4 * 1024


#: So many items of a step run at the same time, unless it says otherwise.
_USUALLY_AT_ONCE = 16


def no_request(_payload: Any, _results: Results) -> Json:
    """Stand for the request of a step that asks no Agent."""
    return {}


@dataclass(frozen=True, slots=True)
class Default:
    """What counts as the event where none came in time: a body that fits the step's `payload`."""

    result: Json


@dataclass(frozen=True, slots=True)
class Step:
    """One unit of work, done by one Agent, which can `undo` it or not. `complete_within` is in seconds.

    `request`, `when`, `until` and `undo_request` are pure. A request is a dict that JSON can hold. A step
    whose `when` is false is `Skipped`; the steps that need it go on. `undo_request` gets the step's own
    result, too, None where it is unknown; without it, an undo gets the request of the do.
    A step that is not `idempotent` is never run twice: if its outcome is unknown, the task goes to `Error`.
    `on_failure` stands before the workflow's; `retry` before the settings'.

    With `for_each`, which is pure, it is carried out for each item of the order, each by itself, at most
    `at_once` at the same time. Its functions get the item as a third argument; its result is the list of the
    items' results, in order, None for what was skipped or has failed.

    By `Way.EVENT`, it waits for a body that fits the model `payload`, from somebody of its `role`, until
    `complete_within` after it began; then `on_expiry` says what follows. The role is `Submitter` (the task's
    own), `Operator`, or one of your own. By `Way.TIMER`, it waits `until` a time. Neither has an Agent.
    By `Way.WORKFLOW`, it is a task of the `workflow` of that name, whose payload is the request, and whose
    answer is the result; it has `complete_within` to be processed, and to be undone it is cancelled.
    """

    name: StepName
    agent: str = ""
    request: RequestMaker = no_request
    complete_within: float = 0
    needs: AbstractSet[StepName] = frozenset()
    undo: bool = False
    idempotent: bool = True
    when: Condition | None = None
    via: Way = Way.ACTIVITY
    undo_request: RequestMaker | None = None
    on_failure: Remedy | None = None
    retry: Retry | None = None
    payload: type[BaseModel] | None = None
    on_expiry: Expiry | Default = field(default=Expiry.REFUSE, hash=False)
    role: str = "Operator"
    until: Time | None = None
    for_each: Items | None = None
    at_once: int | None = None
    workflow: str | None = None


_OF_EVENTS = frozenset({"payload", "on_expiry", "role"})
_OF_AGENTS = frozenset({"agent", "undo", "idempotent", "undo_request", "retry"})
_OF_REQUESTS = frozenset({"request", "for_each", "at_once"})

#: What a step of each way has no use for.
_USELESS = {
    Way.ACTIVITY: _OF_EVENTS | {"until", "workflow"},
    Way.QUEUE: _OF_EVENTS | {"until", "workflow", "retry"},
    Way.EVENT: _OF_AGENTS | _OF_REQUESTS | {"until", "workflow"},
    Way.TIMER: _OF_AGENTS | _OF_REQUESTS | _OF_EVENTS | {"complete_within", "on_failure", "workflow"},
    Way.WORKFLOW: _OF_AGENTS | _OF_EVENTS | {"until"},
}


def read_step(step: Step) -> Step:
    """Replace what may be written in several ways by its one form. Raises `ValueError`: field and fix."""
    via = written.member("via", Way, step.via)
    _check_functions(step, via)
    read = replace(
        step,
        undo=written.flag("undo", step.undo),
        idempotent=written.flag("idempotent", step.idempotent),
        needs=frozenset(map(StepName, written.names("needs", step.needs))),
        complete_within=0 if via is Way.TIMER else written.seconds("complete_within", step.complete_within),
        via=via,
    )
    if read.on_failure is not None:
        read = replace(read, on_failure=written.member("on_failure", Remedy, read.on_failure))
    if read.retry is not None and not isinstance(read.retry, Retry):
        raise ValueError(f"retry must be a Retry(…), not {read.retry!r}")
    for name, usual in ((each.name, each.default) for each in fields(Step)):
        if name in _USELESS[via] and getattr(step, name) != usual:
            raise ValueError(f"a step by way {via} has no {name}: leave it out")
    if read.undo_request is not None and not read.undo:
        raise ValueError("it has undo_request, but no undo: add undo=True")
    if via is Way.WORKFLOW and not isinstance(step.workflow, str):
        raise ValueError(f"workflow must be the name of a workflow, not {step.workflow!r}")
    read = _read_items(read)
    return _read_event(read) if via is Way.EVENT else read


def _check_functions(step: Step, via: Way) -> None:
    takes = written.USUAL if step.for_each is None else written.WITH_ITEM
    if via is Way.TIMER:
        written.function("until", step.until)
    elif via.asks:
        written.function("request", None if step.request is no_request else step.request, takes=takes)
    for name in ("when", "undo_request"):
        if getattr(step, name) is not None:
            written.function(name, getattr(step, name), takes=takes)


def _read_items(step: Step) -> Step:
    if step.for_each is None:
        if step.at_once is not None:
            raise ValueError("it has at_once, but no for_each: leave it out")
        return step
    written.function("for_each", step.for_each, takes=written.PAYLOAD)
    at_once = _USUALLY_AT_ONCE if step.at_once is None else step.at_once
    at_once = written.count("at_once", at_once, most=MOST_STEPS)
    return replace(step, at_once=at_once, for_each=_hashable(step.for_each))


def _hashable(function: Items) -> Items:
    """Give a function by which its items can be kept: an object that is called may have no hash."""
    try:
        hash(function)
    except TypeError:
        return partial(function)
    return function


def _read_event(step: Step) -> Step:
    written.model("payload", step.payload)
    _check_role(step.role)
    if step.on_failure is not None and step.on_expiry != Expiry.REFUSE:
        raise ValueError("only a refused step has an on_failure: leave it out, or on_expiry")
    if isinstance(step.on_expiry, Default):
        size = len(_default_of(step) or "")
        if size > _MOST_DEFAULT_BYTES:
            raise ValueError(f"the default of its on_expiry has {size} bytes; {_MOST_DEFAULT_BYTES} fit")
        return step
    return replace(step, on_expiry=written.member("on_expiry", Expiry, step.on_expiry))


def _check_role(role: object) -> None:
    if not isinstance(role, str) or _ROLE.fullmatch(role) is None:
        raise ValueError(
            "role must be Submitter, Operator or a name such as Approver (a capital letter, then up to 31"
            f" letters, digits, dots and dashes), not {role!r}"
        )
    if role.lower() == "reader":
        raise ValueError("role must not be Reader, who cannot act: name another role")
    for known in KNOWN_ROLES:
        if role != known and role.lower() == known.lower():
            raise ValueError(f"role must be written {known}, not {role!r}")


def _default_of(step: Step) -> str | None:
    """Write the default as the body of an event with it."""
    if step.payload is None or not isinstance(step.on_expiry, Default):
        return None
    try:
        body = json.dumps(plain_json(step.on_expiry.result), ensure_ascii=False, separators=(",", ":"))
        check_body(step.payload, body.encode())
    except ValidationError as error:
        field, said = first_fault(error)
        raise ValueError(f"the default of its on_expiry does not fit ({field}: {said})") from None
    except ValueError as error:
        raise ValueError(f"the default of its on_expiry is no JSON ({error})") from None
    return body


def shape_of(step: Step) -> StepShape:
    """Give what is recorded of a step with each task."""
    return StepShape(
        name=step.name,
        agent=step.agent,
        via=step.via,
        needs=frozenset(step.needs),
        undo=step.undo or step.via is Way.WORKFLOW,
        idempotent=step.idempotent,
        complete_within=step.complete_within,
        on_failure=step.on_failure,
        retry=step.retry,
        role=step.role if step.via is Way.EVENT else None,
        on_expiry=Expiry.REFUSE if isinstance(step.on_expiry, Default) else step.on_expiry,
        default=_default_of(step),
        at_once=step.at_once,
        workflow=step.workflow,
    )
