"""What a caller is told that pydantic has found wrong."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from functions.pattern.faults import faults_found


class Basket(BaseModel):
    """At least one of each."""

    counts: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    names: Annotated[list[str], Field(min_length=1)]


def _told(basket: object) -> list[tuple[tuple[object, ...], str]]:
    with pytest.raises(ValidationError) as fault:
        Basket.model_validate(basket)
    return [(each["loc"], each["type"]) for each in faults_found(fault.value)]


def test_list_whose_items_are_wrong_is_not_called_too_short() -> None:
    """Pydantic counts what fits: of one item that is wrong it says that there is none."""
    assert _told({"counts": [0], "names": ["tea"]}) == [(("counts", 0), "greater_than_equal")]


def test_list_that_is_too_short_is_called_so_beside_other_faults() -> None:
    """Also where another list has wrong items."""
    told = _told({"counts": [0], "names": []})
    assert told == [(("counts", 0), "greater_than_equal"), (("names",), "too_short")]


def test_no_more_is_told_than_anybody_reads() -> None:
    """Of thousands, the first hundred; a list's items come before it."""
    told = _told({"counts": [0] * 9_000, "names": ["tea"]})
    assert told == [(("counts", number), "greater_than_equal") for number in range(100)]
