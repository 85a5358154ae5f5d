"""What becomes of a task of which nothing is left to do: it is processed, with its answer, or parked."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from functions.pattern.definition import Registry
from functions.pattern.folding import Rules
from functions.pattern.parking import as_parked
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.texts import MAX_ERROR_BYTES, bounded, cause_of


def rules_of(registry: Registry) -> Rules:
    """Give what the definitions that are deployed here have a say in."""
    return Rules(complete=partial(complete, registry))


def complete(registry: Registry, record: TaskRecord) -> TaskRecord:
    """Give a processed task its answer; where that fails, its `last_error` says why.

    Where its version is not deployed, or was changed, nobody can tell what its answer is: it is parked, done
    as it is.
    """
    here = Definitions(registry, record)
    try:
        answer, error = here.answer(), None
    except Exception as fault:  # noqa: BLE001 - whatever a definition's function raises
        lack = here.why("its answer", fault)
        if lack.parks:
            return as_parked(record, lack.reason, record.task.updated_at, lack.lasting)
        answer, error = None, bounded(f"its answer can't be given: {cause_of(fault)}", MAX_ERROR_BYTES)
    return replace(record, task=replace(record.task, answer=answer, last_error=error))
