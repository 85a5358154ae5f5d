"""What pydantic has found wrong, without what it was given; of very much, only how much it is."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

#: To list tens of thousands takes longer than others may wait for it, and nobody reads them.
_MOST_LISTED = 10_000
#: To copy and join thousands takes as long again, and a log would have a line of 400 KB.
_MOST_TOLD = 100


def faults_found(error: ValidationError) -> list[Any]:
    """Give the first faults with `type`, `loc` and `msg`, or a single one that tells how many there are."""
    count = error.error_count()
    if count > _MOST_LISTED:
        return [{"type": "too_many_faults", "loc": (), "msg": f"wrong in {count} places"}]
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return _without_followers(faults[:_MOST_TOLD])  # a follower comes after its list's items


def _without_followers(faults: list[Any]) -> list[Any]:
    """Leave out that a list is too short where only its items are wrong: pydantic does not count those."""
    if all(fault["type"] != "too_short" for fault in faults):
        return faults
    places = (fault["loc"] for fault in faults)
    lists = {place[:length] for place in places for length in range(len(place))}
    return [fault for fault in faults if fault["type"] != "too_short" or fault["loc"] not in lists]


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Give the first field that does not fit (empty: all of it), and why: by pydantic, or by the model."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ".".join(map(str, fault["loc"])), fault["msg"]
