"""How often, and how soon, a call of a remote service is made again that failed in a way that may pass."""

from __future__ import annotations

from dataclasses import dataclass

from functions.pattern.states import FaultKind

_MOST_ATTEMPTS = 1_000
_MOST_FACTOR = 10
_LONGEST = 86_400
#: The wait does not grow beyond this attempt; its power would be no number any more.
_GROWS_UNTIL = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """At most so many `attempts` until complete-by, with waits between them, at random up to a bound.

    The bound is `first` seconds, grows by `factor`, and ends at `most`. Only faults that are in `on` are
    worth another attempt. Raises `ValueError`: the field and the fix.
    """

    attempts: int = 100
    first: float = 0.2
    factor: float = 2
    most: float = 10
    on: frozenset[FaultKind] = frozenset(FaultKind)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= _MOST_ATTEMPTS:
            raise ValueError(f"attempts must be 1 to {_MOST_ATTEMPTS}, not {self.attempts!r}")
        if not 0 < self.first <= self.most <= _LONGEST:
            raise ValueError(
                f"first and most must be seconds, most not less than first, and at most {_LONGEST},"
                f" not {self.first!r} and {self.most!r}"
            )
        if not 1 <= self.factor <= _MOST_FACTOR:
            raise ValueError(f"factor must be 1 to {_MOST_FACTOR}, not {self.factor!r}")
        object.__setattr__(self, "on", frozenset(map(FaultKind, self.on)))

    def longest_wait(self, attempt: int) -> float:
        """Give the bound of the wait after failed attempt `attempt` (from 1), in seconds."""
        return min(self.most, self.first * float(self.factor) ** min(attempt - 1, _GROWS_UNTIL))

    def is_worth_it(self, fault: FaultKind | None) -> bool:
        """Tell whether a call that failed so is made again; of no known kind (None), it always is."""
        return fault is None or fault in self.on
