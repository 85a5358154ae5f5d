"""Brackets and commas are counted by the bytes alone, as a parser would see them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.json_marks import depth_of, marks_of

_ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,"\\[]{}é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='",\\]'), inner),
)


def _depth(content: Any) -> int:
    if isinstance(content, dict | list):
        inner = content.values() if isinstance(content, dict) else content
        return 1 + max(map(_depth, inner), default=0)
    return 0


def _marks(content: Any) -> int:
    if not isinstance(content, dict | list):
        return 0
    inner = list(content.values() if isinstance(content, dict) else content)
    return 2 + max(0, len(inner) - 1) + sum(map(_marks, inner))


@given(_ANYTHING, st.booleans())
def test_counts_are_those_of_what_is_parsed(content: Any, ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever stands in its texts."""
    marks = marks_of(json.dumps(content, ensure_ascii=ascii_only).encode(), 10_000)
    assert (depth_of(marks), len(marks)) == (_depth(content), _marks(content))


@pytest.mark.parametrize("body", [b"[" * 99, b"[]," * 99, b'"",' * 99, b'{"":1},' * 99, b'["\\\\",' * 99])
def test_counting_ends_above_the_limit(body: bytes) -> None:
    """One more is enough to refuse."""
    assert len(marks_of(body, 10)) == 11


@pytest.mark.parametrize("body", [b"", b'"[[[[', b'"\\"[[[', b'"\\\\\\"[', b'"' * 99, b"]]]"])
def test_what_is_in_a_text_counts_nothing(body: bytes) -> None:
    """Nor does what is no JSON: the parser says so."""
    assert depth_of(marks_of(body, 10)) <= 0
