"""A log record leaves with its text and the facts of the spans around it, and with nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from functions.telemetry.export import AllowedFields
from functions.telemetry.fields import Facts, Field, record_action
from functions.telemetry.spans import span

_log = logging.getLogger("functions.tests.telemetry")
_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class _Exported(logging.Handler):
    """Keeps what an exporting handler would get."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.addFilter(AllowedFields())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def exported() -> Iterator[_Exported]:
    """Export from one logger."""
    handler = _Exported()
    _log.addHandler(handler)
    yield handler
    _log.removeHandler(handler)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


@pytest.mark.usefixtures("spans")
def test_record_carries_the_facts_of_the_spans_around(exported: _Exported) -> None:
    """Task, epoch and step, the inner span's before the outer's."""
    inner: Facts = {Field.STEP: "drone", Field.EPOCH: 2}
    with span("outer", {Field.TASK: "t-1", Field.EPOCH: 1}), span("inner", inner):
        _log.warning("drone answered %d", 503)
    _log.warning("afterwards")
    inside, outside = exported.records
    assert inside.getMessage() == "drone answered 503"
    assert _facts(inside) == {"task.id": "t-1", "task.epoch": 2, "step.name": "drone"}
    assert _facts(outside) == {}


def test_what_is_not_on_the_allow_list_stays_here(exported: _Exported) -> None:
    """Whatever a line is given beside its text."""
    _log.warning("submitted", extra={"payload": "s3cret", "task.note": "s3cret"})
    assert "s3cret" not in str(vars(exported.records[0]))


def test_exception_leaves_by_class_and_place(exported: _Exported) -> None:
    """Its text may quote anything; the file, the line and the code may be told."""
    try:
        int("S3CRET".lower())
    except ValueError:
        _log.exception("claim failed")
    [record] = exported.records
    facts = _facts(record)
    assert facts["error.type"] == "ValueError"
    assert "test_exception_leaves_by_class_and_place" in str(facts["error.frames"])
    assert (record.exc_info, record.exc_text) == (None, None)
    assert "s3cret" not in str(vars(record))


def test_other_handlers_get_the_record_as_it_is(
    exported: _Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """The console goes on showing exceptions."""
    try:
        int("S3CRET".lower())
    except ValueError:
        _log.exception("claim failed", extra={"hint": "look here"})
    [record] = caplog.records
    assert record.exc_info
    assert vars(record)["hint"] == "look here"
    assert exported.records[0] is not record


def test_operators_action_is_an_event_with_who_did_what(caplog: pytest.LogCaptureFixture) -> None:
    """As an event it goes to a table of its own, with its own retention; the reason stays."""
    handler, logger = _Exported(), logging.getLogger("functions.telemetry.fields")
    logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, logger.name):
            record_action("ada", "resubmit", "tasks/order-1")
    finally:
        logger.removeHandler(handler)
    [record] = handler.records
    assert _facts(record) == {
        "microsoft.custom_event.name": "operator action",
        "operator.name": "ada",
        "task.decision": "resubmit",
        "operator.target": "tasks/order-1",
    }
