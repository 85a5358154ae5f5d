"""What telemetry may contain: the allow-list of names under which spans, metrics and log records carry facts.

Payloads, results, tokens, headers and addresses have no name here, so they are never exported.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum


class Field(StrEnum):
    """A fact's name; where OpenTelemetry's semantic conventions have one, it is theirs."""

    #: The task, by the order's id.
    TASK = "task.id"
    #: The task's workflow.
    WORKFLOW = "task.workflow"
    #: Which attempt at the task.
    EPOCH = "task.epoch"
    #: Where the task ended: its `ProcessState`.
    STATE = "task.state"
    #: The step, by its name in the workflow.
    STEP = "step.name"
    #: Of a step for each item: which of them, from 0.
    ITEM = "step.item"
    #: The Agent that does the step.
    AGENT = "step.agent"
    #: Whether the step is done or undone.
    DIRECTION = "step.direction"
    #: The outcome of an attempt at the step.
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
    #: The method of an HTTP request.
    METHOD = "http.request.method"
    #: The route that took an HTTP request, with the names of its parameters, not their values.
    ROUTE = "http.route"
    #: The status of an HTTP answer.
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
    """Record that an operator did something, when it is done.

    The reason is not exported, as it is free text: it is kept with what was acted on.
    """
    event = "operator action"  # in Application Insights, no other line becomes an event
    facts: Facts = {Field.EVENT: event, Field.OPERATOR: who, Field.DECISION: action, Field.TARGET: target}
    _log.info("%s: %s %s by %s", event, action, target, who, extra={FACTS: facts})
