"""Who may have how many calls in flight at a remote service whose calls are limited over all instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from functions.pattern.times import ZonedTime

#: Instances that can have a share at once: their shares stand in one property of a row (64 KiB).
MOST_HOLDERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one instance, `holder`, may have in flight: so many `places`, until then (UTC, its own clock).

    It had `in_flight` calls under way, and work for `wanted` places, when it wrote this.
    """

    holder: str
    places: int
    wanted: int
    in_flight: int
    until: ZonedTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What an instance has to do: `in_flight` calls, `held` places of steps under way, `wanted` in all."""

    holder: str
    in_flight: int
    held: int
    wanted: int


def live(shares: Iterable[Share], now: datetime) -> tuple[Share, ...]:
    """Leave out the shares that have lapsed: their holders have no call in flight any more."""
    return tuple(share for share in shares if now < share.until)


def part_of(shares: Iterable[Share], limit: int, demand: Demand, now: datetime) -> int:
    """Tell how many places an instance may fill with new work: as many as are fair, and free.

    Source: max-min fairness (Bertsekas and Gallager, Data Networks, 6.5).
    """
    known, holder = live(shares, now), demand.holder
    others = tuple(share for share in known if share.holder != holder)
    wanted = {share.holder: max(share.wanted, share.in_flight) for share in others}
    held = {share.holder: share.places for share in known}
    fair = fair_places(limit, wanted | {holder: demand.wanted}, held)[holder]
    return max(0, min(fair, limit - sum(share.places for share in others)))


def renewed(
    shares: Iterable[Share], limit: int, demand: Demand, now: datetime, until: datetime
) -> tuple[Share, ...]:
    """Renew an instance's share until then; all of them together never pass `limit`.

    Beyond its part, it keeps what its steps under way hold, unless its share has lapsed: another may have
    that by now.
    """
    known = live(shares, now)
    others = tuple(share for share in known if share.holder != demand.holder)
    if len(others) >= MOST_HOLDERS:
        return others
    before = sum(share.places for share in known if share.holder == demand.holder)
    kept = max(demand.in_flight, min(demand.held, before))
    mine = Share(
        holder=demand.holder,
        places=max(kept, part_of(known, limit, demand, now)),
        wanted=demand.wanted,
        in_flight=demand.in_flight,
        until=until,
    )
    return (*others, mine)


def given_back(shares: Iterable[Share], holder: str, now: datetime) -> tuple[Share, ...]:
    """Give back all of an instance's share."""
    return tuple(share for share in live(shares, now) if share.holder != holder)


def is_short(shares: Iterable[Share], holder: str, now: datetime) -> bool:
    """Tell whether another instance than `holder` has work for more places than it has."""
    return any(share.wanted > share.places for share in live(shares, now) if share.holder != holder)


def fair_places(limit: int, wanted: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Divide `limit` places: nobody gets more than is wanted while another lacks any; then what is left over.

    Of what can't be divided, those get one who `held` most already, so that places change hands seldom.
    """
    given = _filled(dict.fromkeys(wanted, 0), limit, wanted, held)
    spare = limit - sum(given.values())
    return _filled(given, spare, {holder: given[holder] + spare for holder in given}, held)


def _filled(
    given: Mapping[str, int], left: int, wanted: Mapping[str, int], held: Mapping[str, int]
) -> dict[str, int]:
    """Give out what is `left` in equal parts, to those who want more than they were given."""
    filled = dict(given)
    while short := [holder for holder in filled if filled[holder] < wanted[holder]]:
        part = left // len(short)
        if part == 0:
            by_held = sorted(short, key=lambda each: (filled[each] - held.get(each, 0), each))
            for holder in by_held[:left]:
                filled[holder] += 1
            break
        for holder in short:
            more = min(part, wanted[holder] - filled[holder])
            filled[holder] += more
            left -= more
    return filled
