"""What becomes of a task of which nothing is left to do: it is processed, with its answer, or parked."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from functions.pattern.contents import Contents, clean
from functions.pattern.definition import Registry
from functions.pattern.folding import Rules
from functions.pattern.parking import as_parked
from functions.pattern.readiness import Definitions, NotDeployedError, lack_of
from functions.pattern.records import MAX_ANSWER_BYTES, TaskRecord
from functions.pattern.requests import json_bytes
from functions.pattern.texts import MAX_ERROR_BYTES, bounded, cause_of


def rules_of(registry: Registry) -> Rules:
    """Give what the definitions that are deployed here have a say in."""
    return Rules(complete=partial(complete, registry), clean=partial(clean, registry))


def complete(registry: Registry, record: TaskRecord) -> TaskRecord:
    """Give a processed task its answer; where that fails, its `last_error` says why.

    Where its version is not deployed, nobody can tell what its answer is: it is parked, done as it is.
    """
    try:
        answer, error = _answer(Definitions(registry, record)), None
    except NotDeployedError as lack:
        reason = Contents(registry, record).without_secrets(str(lack))
        return as_parked(record, reason, record.task.updated_at, lack_of(lack).lasting)
    except Exception as defect:  # noqa: BLE001 - whatever a definition's function raises
        answer, error = None, cause_of(defect)
    if error is not None:
        error = Contents(registry, record).without_secrets(error)
        error = bounded(f"its answer can't be given: {error}", MAX_ERROR_BYTES)
    return replace(record, task=replace(record.task, answer=answer, last_error=error))


def _answer(definitions: Definitions) -> bytes | None:
    make = definitions.answer()
    return None if make is None else json_bytes("answer", make(), MAX_ANSWER_BYTES)
