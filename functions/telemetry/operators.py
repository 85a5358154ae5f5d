"""The record of operators' actions outside the application's own tables: a log that nobody changes."""

from __future__ import annotations

import logging

from functions.telemetry.fields import Facts, Field

#: Under this attribute a log record brings facts of its own; their names are on the allow-list, too.
FACTS = "facts"

#: The event's name; in Application Insights, no other line becomes an event.
_EVENT = "operator action"

_log = logging.getLogger(__name__)


def record_action(who: str, action: str, target: str) -> None:
    """Record that an operator did something, when it is done.

    The reason is not exported, as it is free text: it is kept with what was acted on.
    """
    facts: Facts = {
        Field.EVENT: _EVENT,
        Field.OPERATOR: who,
        Field.DECISION: action,
        Field.TARGET: target,
    }
    _log.info("%s: %s %s by %s", _EVENT, action, target, who, extra={FACTS: facts})
