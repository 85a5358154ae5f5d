"""The keys by which a task is found: few, bounded, and the same however a person types the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

from functions.pattern.errors import DefinitionError, UnfitOrderError
from functions.pattern.search_keys import MAX_KEYS, search_key, search_keys
from tests.fakes.workflows import DIAMOND, Parcel, each, order, step, workflow

PARCEL = Parcel(weight=3)


def _keys(find_by: Callable[[Any], Iterable[Any]], steps: int = 1) -> tuple[str, ...]:
    made = workflow(*(step(f"s{number}") for number in range(steps)), find_by=find_by)
    return search_keys(made, PARCEL, steps)


def test_order_of_a_workflow_with_find_by_has_its_keys() -> None:
    """Of the payload; another workflow's order has none."""
    found = order(workflow(step("pick"), find_by=lambda parcel: [f"weight {parcel.weight}"]), weight=7)
    assert found.search_keys == (search_key("weight 7"),)
    assert order(DIAMOND).search_keys == ()


@pytest.mark.parametrize("typed", ["Ada@Example.com", " ada@example.COM ", "ａda@example.com"])  # noqa: RUF001
def test_text_is_the_same_however_it_is_typed(typed: str) -> None:
    """Capital letters, spaces around it and wide letters do not matter."""
    assert search_key(typed) == search_key("ada@example.com")
    assert search_key("ada@example.org") != search_key("ada@example.com")


def test_same_text_twice_is_one_key_and_none_is_none() -> None:
    """An optional field of the payload may be given as it is."""
    assert _keys(lambda _: ["Ada", "ada ", None, "", " "]) == (search_key("ada"),)
    # Beginning of a long text counts.
    assert _keys(lambda _: [" " + "x" * 5_000]) == (search_key("x" * 100),)
    assert search_key("x" * 99) != search_key("x" * 100)


def test_too_many_texts_are_refused() -> None:
    """Each is a row; steps and keys share a transaction's room."""
    assert len(_keys(lambda _: map(str, range(MAX_KEYS)))) == MAX_KEYS
    with pytest.raises(UnfitOrderError, match="found by 9 texts; at most 8 are possible"):
        _keys(lambda _: map(str, range(MAX_KEYS + 1)))
    assert len(_keys(lambda _: ["a", "b"], steps=88)) == 2
    with pytest.raises(UnfitOrderError, match=r"^Its 89 steps and items and the 2 texts .* than 90 together"):
        _keys(lambda _: ["a", "b"], steps=89)


def test_items_and_texts_share_a_transactions_room() -> None:
    """Each item is a step, and has a row."""
    found = workflow(each("call"), find_by=lambda _: ["a", "b"])
    assert len(order(found, weight=88).search_keys) == 2
    with pytest.raises(UnfitOrderError, match="Its 89 steps and items and the 2 texts"):
        order(found, weight=89)


@pytest.mark.parametrize("texts", [lambda parcel: [parcel.weight], lambda parcel: parcel.nothing])
def test_order_whose_texts_can_t_be_told_is_refused(texts: Callable[[Any], Iterable[Any]]) -> None:
    """Without what the function said, which is the developer's to see."""
    with pytest.raises(UnfitOrderError, match=r"^The texts by which it is found can't be told\.$"):
        _keys(texts)


def test_one_text_in_the_place_of_a_list_is_refused() -> None:
    """Each of its letters would be a text; the developer is told in the log."""
    with pytest.raises(UnfitOrderError) as refusal:
        _keys(lambda _: "Ada")
    assert str(refusal.value.__cause__) == "find_by gives a list of texts, not a text"
    # Texts without an end are refused.
    with pytest.raises(UnfitOrderError, match="found by 90 texts"):
        _keys(lambda _: map(str, count()))


def test_find_by_must_be_a_function() -> None:
    """Told when it is defined."""
    with pytest.raises(DefinitionError, match="find_by must be a function of the payload, not 'email'"):
        workflow(step("pick"), find_by="email")  # type: ignore[arg-type]

    # Find by may yield.
    def texts(parcel: Any) -> Iterable[str]:
        yield f"{parcel.weight} kg"

    assert len(_keys(texts)) == 1
