"""Spans say what the allow-list has a name for, and an exception's class at most."""

from __future__ import annotations

import pytest
from opentelemetry.trace import StatusCode, get_current_span

from functions.telemetry.fields import Field
from functions.telemetry.spans import span
from tests.unit.telemetry.conftest import Spans, parent_of, traceparent_of


def test_span_carries_its_facts(spans: Spans) -> None:
    """Under the names of the allow-list, and nothing besides."""
    with span("step drone", {Field.TASK: "t-1", Field.EPOCH: 2}):
        pass
    assert dict(spans.one("step drone").attributes or {}) == {"task.id": "t-1", "task.epoch": 2}


def test_exception_is_told_by_its_class(spans: Spans) -> None:
    """Its text may quote a payload; the exception itself goes on."""
    with pytest.raises(ValueError, match="s3cret"), span("claim", {}):
        raise ValueError("s3cret")
    failed = spans.one("claim")
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {}) == {"error.type": "ValueError"}
    assert (failed.events, failed.status.description) == ((), None)


def test_spans_nest_and_end(spans: Spans) -> None:
    """What begins inside is below; afterwards there is no current span."""
    with span("outer", {}), span("inner", {}):
        pass
    outer, inner = spans.one("outer"), spans.one("inner")
    assert parent_of(inner) == traceparent_of(outer)[36:52]
    assert not get_current_span().get_span_context().is_valid
