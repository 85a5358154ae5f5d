"""A state of the model: the record, its runs with their calls, and the effects at the remote services."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A call that a run has begun. `outcome` is empty until the service has answered or the time is over."""

    step: str
    start_id: str
    is_undo: bool
    outcome: str = ""


class Run(NamedTuple):
    """One activity of a run, in the current epoch or in an earlier one."""

    is_current: bool
    number: int
    calls: tuple[Call, ...] = ()

    def without(self, call: Call) -> Run:
        """Return the run without one call."""
        return self._replace(calls=tuple(each for each in self.calls if each is not call))


class Effect(NamedTuple):
    """The effect of one step at its service: how often it took place, and whether it was undone."""

    done: int = 0
    is_undone: bool = False


class Left(NamedTuple):
    """The faults that may still happen, and the actions that an operator may still take.

    `late` counts requests that outlive their caller, and answers that are lost before the deadline.
    """

    duplicates: int = 0
    crashes: int = 0
    late: int = 0
    refusals: int = 0
    actions: int = 0


class State(NamedTuple):
    """The record by its number. `effects` are in the order of the steps; all other tuples are sorted."""

    record: int
    runs: tuple[Run, ...]
    effects: tuple[Effect, ...]
    #: Calls whose caller does not wait any more, and that may still arrive.
    late: tuple[Call, ...]
    left: Left

    @property
    def start_ids(self) -> frozenset[str]:
        """Return the start ids of all calls under way."""
        calls = [call for run in self.runs for call in run.calls]
        return frozenset(call.start_id for call in (*calls, *self.late))

    def with_run(self, before: Run | None, after: Run | None) -> State:
        """Return the state with another run in the place of one. A run without calls has ended."""
        runs = list(self.runs)
        if before is not None:
            runs.remove(before)
        if after is not None and after.calls:
            runs.append(after._replace(calls=tuple(sorted(after.calls))))
        return self._replace(runs=tuple(sorted(runs)))

    def with_late(self, call: Call) -> State:
        """Return the state after a call lost its caller, and may arrive later."""
        late = tuple(sorted((*self.late, call)))
        return self._replace(late=late, left=self.left._replace(late=self.left.late - 1))
