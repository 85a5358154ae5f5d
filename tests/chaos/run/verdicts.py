"""The verdict of each run of a release run: a file in a folder, so that it can be taken up again."""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.invariants import Violation
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.remotes.ledger import Effect

_KILLS = (InjectedFault.HOST_KILLED, InjectedFault.BROKER_KILLED)


class RunVerdict(BaseModel):
    """What came of one run. `settled` is in seconds; `faults` are those that had an effect."""

    model_config = ConfigDict(frozen=True)

    seed: int
    day: date
    commit: str
    hosts: int
    tasks: int
    faults: dict[str, int]
    not_run: tuple[str, ...]
    states: dict[str, int]
    recoveries: int
    late_refused: int
    settled: float
    violations: tuple[str, ...]

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(self.faults.get(kind, 0) for kind in _KILLS)


def verdict_of(
    evidence: Evidence, found: Sequence[Violation], *, day: date, commit: str, hosts: int
) -> RunVerdict:
    """Sum up a run."""
    tasks = evidence.tasks.values()
    return RunVerdict(
        seed=evidence.plan.seed,
        day=day,
        commit=commit,
        hosts=hosts,
        tasks=len(tasks),
        faults={fault.value: count for fault, count in evidence.fault_counts.items()},
        not_run=tuple(sorted(evidence.plan.not_run)),
        states=Counter(rows.task.state for rows in tasks if rows.task is not None),
        recoveries=sum(epoch.ended_by == "recovered" for rows in tasks for epoch in rows.history),
        late_refused=sum(call.effect is Effect.TOMBSTONED for call in evidence.calls),
        settled=evidence.settling.seconds,
        violations=tuple(f"{each.invariant.number} {each.order}: {each.what}" for each in found),
    )


def failed_verdict(seed: int, what: str, *, commit: str, hosts: int) -> RunVerdict:
    """Keep of a run that failed, or whose evidence could not be judged, what it raised."""
    return RunVerdict(
        seed=seed,
        day=datetime.now(UTC).date(),
        commit=commit,
        hosts=hosts,
        tasks=0,
        faults={},
        not_run=(),
        states={},
        recoveries=0,
        late_refused=0,
        settled=0.0,
        violations=(what,),
    )


class RunVerdicts:
    """A folder of verdicts, each in a file that is named for its seed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def all(self) -> list[RunVerdict]:
        """Read all, in the order of their seeds."""
        files = sorted(self._folder.glob("seed-*.json"))
        return [RunVerdict.model_validate_json(file.read_bytes()) for file in files]

    @contextmanager
    def next_seed(self) -> Iterator[int]:
        """Claim the first seed that has no verdict, and that no other process has claimed.

        It is free again when the block or the process ends.
        """
        for seed in count(1):
            with self._file(seed).with_suffix(".claim").open("w") as claim:
                if _is_locked(claim) and not self._file(seed).exists():
                    yield seed
                    return

    def keep(self, verdict: RunVerdict) -> None:
        """Add one, whole or not at all."""
        file = self._file(verdict.seed)
        new = file.with_suffix(".new")
        new.write_text(verdict.model_dump_json(indent=1), encoding="utf-8")
        new.replace(file)

    def _file(self, seed: int) -> Path:
        return self._folder / f"seed-{seed:04d}.json"


def _is_locked(file: IO[str]) -> bool:
    """Lock a file until it is closed, unless somebody has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ledger(verdicts: Sequence[RunVerdict]) -> str:
    """Write the lines for the ledger in docs/reliability.md: one for each commit, then the faults by kind."""
    lines = ["| commit | until | runs | tasks | kills | faults | recoveries | late refused | violations |"]
    lines += ["| " + " | ".join(["---"] * 9) + " |"]
    for commit in dict.fromkeys(each.commit for each in verdicts):
        own = [each for each in verdicts if each.commit == commit]
        sums = (
            sum(each.tasks for each in own),
            sum(each.kills for each in own),
            sum(sum(each.faults.values()) for each in own),
            sum(each.recoveries for each in own),
            sum(each.late_refused for each in own),
            sum(len(each.violations) for each in own),
        )
        lines += [
            f"| {commit} | {max(each.day for each in own)} | {len(own)} | {' | '.join(map(str, sums))} |"
        ]
    return "\n".join([*lines, "", *_sums("tasks", verdicts), *_sums("faults", verdicts), *_not_run(verdicts)])


def _sums(what: str, verdicts: Sequence[RunVerdict]) -> list[str]:
    counts = Counter[str]()
    for each in verdicts:
        counts.update(each.states if what == "tasks" else each.faults)
    return [f"{what}: {', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))}"]


def _not_run(verdicts: Sequence[RunVerdict]) -> list[str]:
    kinds = sorted({kind for each in verdicts for kind in each.not_run})
    return [f"not run: {', '.join(kinds)}"] if kinds else []
