"""The search keys of orders, by which operators find a task: the digests of the texts of `find_by`."""

from __future__ import annotations

import hashlib
import unicodedata
from itertools import islice
from typing import Any

from functions.core.definition.definition_checks import MOST_STEPS
from functions.core.definition.workflow_definition import UnfitOrderError, Workflow

#: Search keys of one order. Each has a row, which is written with the task.
MOST_SEARCH_KEYS = 8
#: Characters of a search text that count.
MOST_SEARCH_CHARACTERS = 100


def search_key(text: str) -> str:
    """Return the key of a search text, which is the same for capital letters and for spaces around it."""
    same = unicodedata.normalize("NFKC", text.strip()[:MOST_SEARCH_CHARACTERS]).casefold().strip()
    return hashlib.sha256(same.encode()).hexdigest()[:32]


def search_keys(workflow: Workflow[Any], payload: str, steps: int) -> tuple[str, ...]:
    """Return the search keys of an order; an empty text and None have no key.

    `payload` is valid JSON, and `steps` the number of its steps with items. Raises `UnfitOrderError` if it
    has too many keys, or if `find_by` raises an error or returns no list of texts.
    """
    if workflow.find_by is None:
        return ()
    try:
        texts = workflow.find_by(workflow.payload.model_validate_json(payload))
        if isinstance(texts, str):
            raise TypeError("find_by returned a text: return a list of texts")  # noqa: TRY301 - as any defect
        found = (text for text in islice(texts, MOST_STEPS) if text is not None and text.strip())
        keys = tuple(dict.fromkeys(map(search_key, found)))
    except Exception as fault:
        raise UnfitOrderError("Its search texts cannot be read.") from fault
    if len(keys) > MOST_SEARCH_KEYS:
        raise UnfitOrderError(f"It has {len(keys)} search texts; the limit is {MOST_SEARCH_KEYS}.")
    if steps + len(keys) > MOST_STEPS:
        raise UnfitOrderError(
            f"It has {steps} steps, items included, and {len(keys)} search texts;"
            f" the limit is {MOST_STEPS} together."
        )
    return keys
