"""The allow-list of names under which telemetry carries facts; payloads, tokens, addresses have none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum


class Field(StrEnum):
    """A fact's name; where OpenTelemetry's semantic conventions have one, it is theirs."""

    TASK = "task.id"
    WORKFLOW = "task.workflow"
    EPOCH = "task.epoch"
    #: Where the task ended: its `ProcessState`.
    STATE = "task.state"
    STEP = "step.name"
    #: Of a step for each item: which of them, from 0.
    ITEM = "step.item"
    AGENT = "step.agent"
    DIRECTION = "step.direction"
    OUTCOME = "step.outcome"
    #: What the Supervisor, or an operator, does about a task: the event's name.
    DECISION = "task.decision"
    #: Makes a log record an event, which goes to a table of its own in Application Insights; its name there.
    EVENT = "microsoft.custom_event.name"
    #: The operator who acted, as callers are named.
    OPERATOR = "operator.name"
    #: What the operator acted on, by its address below `api/ops`.
    TARGET = "operator.target"
    #: The remote service, by its Agent's name; its address is not exported.
    SERVICE = "peer.service"
    #: The queue that a message came from.
    QUEUE = "messaging.destination.name"
    METHOD = "http.request.method"
    #: The route that took an HTTP request, with the names of its parameters, not their values.
    ROUTE = "http.route"
    STATUS = "http.response.status_code"
    #: The class of an exception; its text may quote anything.
    ERROR = "error.type"
    #: Where an exception came from: files, lines and code, without its text.
    FRAMES = "error.frames"


type Fact = str | int | float
type Facts = Mapping[Field, Fact]


def attributes(facts: Facts) -> dict[str, Fact]:
    """Write facts as OpenTelemetry takes them."""
    return {field.value: fact for field, fact in facts.items()}


#: Under this attribute a log record brings facts of its own; their names are on the allow-list, too.
FACTS = "facts"

_log = logging.getLogger(__name__)


def record_action(who: str, action: str, target: str) -> None:
    """Record an operator's action when it is done, without the reason, which is free text."""
    event = "operator action"  # in Application Insights, no other line becomes an event
    facts: Facts = {Field.EVENT: event, Field.OPERATOR: who, Field.DECISION: action, Field.TARGET: target}
    _log.info("%s: %s %s by %s", event, action, target, who, extra={FACTS: facts})
