"""Search keys of orders: texts that are the same, and texts that a workflow must not return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel

from functions.core.definition.step_definition import Step
from functions.core.definition.workflow_definition import (
    MOST_SEARCH_KEYS,
    UnfitOrderError,
    Workflow,
    search_key,
)


class Parcel(BaseModel):
    """The payload."""

    weight: int = 3


def _request(_parcel: Any, _results: Any) -> dict[str, object]:
    return {}


def _keys(find_by: Callable[[Any], Iterable[Any]] | None, steps: int = 1) -> tuple[str, ...]:
    flow = Workflow("w", payload=Parcel, steps=[Step("pick", request=_request)], find_by=find_by)
    return flow.search_keys('{"weight":7}', steps)


def test_keys_are_of_the_texts_of_the_payload() -> None:
    """An order of a workflow without `find_by` has none."""
    seen = _keys(lambda parcel: [f"Weight {parcel.weight}", "Ada"])
    assert seen == (search_key("weight 7"), search_key("ada"))
    assert _keys(None) == ()


@pytest.mark.parametrize("typed", ["Ada@Example.com", " ada@example.COM ", "ａda@example.com"])  # noqa: RUF001
def test_capitals_spaces_and_wide_letters_do_not_matter(typed: str) -> None:
    """Operators type texts as callers do."""
    assert search_key(typed) == search_key("ada@example.com")
    assert search_key("ada@example.org") != search_key("ada@example.com")


def test_equal_texts_have_one_key_and_empty_texts_none() -> None:
    """The first hundred characters of a long text count."""
    assert _keys(lambda _: ["Ada", "ada ", None, "", " "]) == (search_key("ada"),)
    assert _keys(lambda _: [" " + "x" * 5_000]) == (search_key("x" * 100),)
    assert search_key("x" * 99) != search_key("x" * 100)


@pytest.mark.parametrize(
    ("texts", "steps", "reason"),
    [
        (range(MOST_SEARCH_KEYS + 1), 1, "It has 9 search texts; the limit is 8."),
        (count(), 1, "It has 90 search texts; the limit is 8."),
        (range(2), 89, "It has 89 steps, items included, and 2 search texts; the limit is 90 together."),
    ],
)
def test_too_many_texts_are_unfit(texts: Iterable[int], steps: int, reason: str) -> None:
    """Each is a row, and steps and keys share a transaction."""
    with pytest.raises(UnfitOrderError) as error:
        _keys(lambda _: map(str, texts), steps)
    assert str(error.value) == reason
    assert len(_keys(lambda _: map(str, range(MOST_SEARCH_KEYS)), 82)) == MOST_SEARCH_KEYS


@pytest.mark.parametrize(
    ("find_by", "cause"),
    [
        (lambda _: "Ada", "find_by returned a text: return a list of texts"),
        (lambda parcel: [parcel.weight], "'int' object has no attribute 'strip'"),
        (lambda parcel: parcel.nothing, "'Parcel' object has no attribute 'nothing'"),
        (lambda _: None, "'NoneType' object is not iterable"),
    ],
)
def test_texts_that_cannot_be_read_are_unfit(find_by: Callable[[Any], Any], cause: str) -> None:
    """The caller gets no text of the function; the log has the cause."""
    with pytest.raises(UnfitOrderError, match=r"^Its search texts cannot be read\.$") as error:
        _keys(find_by)
    assert str(error.value.__cause__) == cause
