"""All metrics, and the fields of log records and spans, as `docs/telemetry.md` lists them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

from opentelemetry.metrics import get_meter

METER = get_meter("functions")

#: Bounds of histograms, in seconds: from a remote call to an order that waits for hours.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)

SUBMITTED = METER.create_counter("tasks.submitted", "{task}", "Orders recorded as tasks")
PROCESSED = METER.create_counter("tasks.processed", "{task}", "Tasks whose steps are all done")
COMPENSATED = METER.create_counter("tasks.compensated", "{task}", "Tasks whose steps are all undone")
ERRORS = METER.create_counter("tasks.errors", "{task}", "Tasks that entered Error")
RECOVERIES = METER.create_counter("tasks.recoveries", "{recovery}", "Recoveries of overdue tasks")
TASK_DURATION = METER.create_histogram(
    "task.duration", "s", "From submission to the end", explicit_bucket_boundaries_advisory=_SECONDS
)
STEP_DURATION = METER.create_histogram(
    "step.duration", "s", "From a start to its outcome", explicit_bucket_boundaries_advisory=_SECONDS
)
RETRIES = METER.create_counter("remote.retries", "{call}", "Retried calls of remote services")
OTHER_START_REPLIES = METER.create_counter(
    "replies.wrong_token", "{reply}", "Replies with another start id than the current request's"
)
EVENTS = METER.create_counter("events.taken", "{event}", "Events of the hub that were handled")
EVENT_AGE = METER.create_histogram(
    "events.age", "s", "Age of the oldest event of a batch", explicit_bucket_boundaries_advisory=_SECONDS
)


class Field(StrEnum):
    """The name of a fact, from OpenTelemetry's semantic conventions where they have one."""

    TASK = "task.id"
    WORKFLOW = "task.workflow"
    EPOCH = "task.epoch"
    #: The `ProcessState` in which the task ended.
    STATE = "task.state"
    STEP = "step.name"
    #: The number of the item of a for-each step, from 0.
    ITEM = "step.item"
    AGENT = "step.agent"
    DIRECTION = "step.direction"
    OUTCOME = "step.outcome"
    #: The name of an event of the Supervisor or of an operator.
    DECISION = "task.decision"
    #: The name of an event. Application Insights stores a log record with it in a table of events.
    EVENT = "microsoft.custom_event.name"
    #: The name of the operator who acted.
    OPERATOR = "operator.name"
    #: The object of the operator's action, by its path below `api/ops`.
    TARGET = "operator.target"
    #: The remote service, by its Agent's name; its address is not exported.
    SERVICE = "peer.service"
    #: The queue that a message came from.
    QUEUE = "messaging.destination.name"
    METHOD = "http.request.method"
    #: The route of an HTTP request, with the names of its parameters instead of their values.
    ROUTE = "http.route"
    STATUS = "http.response.status_code"
    #: The class of an exception. Its text may contain secrets and is not exported.
    ERROR = "error.type"
    #: The traceback of an exception: files, lines and code, without its text.
    FRAMES = "error.frames"


type Fact = str | int | float
type Facts = Mapping[Field, Fact]


#: The attribute of a log record with further facts. They are exported, too.
FACTS = "facts"

_log = logging.getLogger(__name__)


def record_action(who: str, action: str, target: str) -> None:
    """Log an operator's completed action, without the reason, which is free text."""
    event = "operator action"  # in Application Insights, no other line becomes an event
    facts: Facts = {Field.EVENT: event, Field.OPERATOR: who, Field.DECISION: action, Field.TARGET: target}
    _log.info("%s: %s %s by %s", event, action, target, who, extra={FACTS: facts})
