"""A state of the model: the record, who is at work on it, and what the remote service has done."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A call that a run has begun; `is_done` when it has its answer: done, or refused."""

    step: str
    start_id: str
    is_undo: bool
    is_done: bool | None = None


class Run(NamedTuple):
    """One run of a Scheduler's `run_steps`, of the epoch that `is_current`, or of one that has ended."""

    is_current: bool
    calls: tuple[Call, ...] = ()

    def without(self, call: Call) -> Run:
        """Take one call away."""
        return self._replace(calls=tuple(each for each in self.calls if each is not call))


class Effect(NamedTuple):
    """What the remote service did under one step's key: how often, and whether it was undone."""

    done: int = 0
    is_undone: bool = False


class Left(NamedTuple):
    """What may still go wrong, and how often an operator may still act."""

    duplicates: int = 0
    crashes: int = 0
    late: int = 0
    refusals: int = 0
    deeds: int = 0


class State(NamedTuple):
    """Records and verdicts are numbers of the core's. What has no order is sorted."""

    record: int
    runs: tuple[Run, ...]
    #: What Supervisors have decided, and not yet done.
    verdicts: tuple[int, ...]
    #: By the workflow's order of steps.
    effects: tuple[Effect, ...]
    #: Calls whose caller is gone, and that may still arrive.
    late: tuple[Call, ...]
    left: Left

    def with_run(self, before: Run | None, after: Run | None) -> State:
        """Put a run in the place of another; one that has nothing to do any more has ended."""
        runs = list(self.runs)
        if before is not None:
            runs.remove(before)
        if after is not None and after.calls:
            runs.append(after._replace(calls=tuple(sorted(after.calls, key=repr))))
        return self._replace(runs=tuple(sorted(runs, key=repr)))

    def with_record(self, record: int, *, is_next_epoch: bool, keyless: frozenset[str]) -> State:
        """Put a record in the place of another. What was decided for an epoch that has ended is refused.

        So is what its runs tell, but for outcomes of `keyless` steps, which are kept: the other calls of
        those runs matter only until they were carried out.
        """
        if not is_next_epoch:
            return self._replace(record=record)
        runs = []
        for run in self.runs:
            open_calls = tuple(each for each in run.calls if _counts_on(each, keyless))
            if open_calls:
                runs.append(Run(is_current=False, calls=open_calls))
        return self._replace(record=record, runs=tuple(sorted(runs, key=repr)), verdicts=())


def _counts_on(call: Call, keyless: frozenset[str]) -> bool:
    return call.is_done is None or (call.step in keyless and not call.is_undo)
