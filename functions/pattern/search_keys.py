"""The keys by which an order is found: what its workflow's `find_by` gives of its payload."""

from __future__ import annotations

import hashlib
import unicodedata
from itertools import islice

from pydantic import BaseModel

from functions.pattern.definition import Workflow
from functions.pattern.errors import UnfitOrderError
from functions.pattern.items import MOST_STEPS

#: Each is a row, written with the task.
MAX_KEYS = 8

#: What counts of a text, which a person types, such as an e-mail address; an address (URL) has room for it.
MAX_TEXT_CHARACTERS = 100

_KEY_CHARACTERS = 32


def search_key(text: str) -> str:
    """Give the key of a text: the same for capital letters, and for spaces around it."""
    same = unicodedata.normalize("NFKC", text.strip()[:MAX_TEXT_CHARACTERS]).casefold().strip()
    return hashlib.sha256(same.encode()).hexdigest()[:_KEY_CHARACTERS]


def search_keys(workflow: Workflow, payload: BaseModel, steps: int) -> tuple[str, ...]:
    """Give the keys by which an order of so many steps is found; an empty text, or None, is none.

    Raises `UnfitOrderError` for too many texts, and when `find_by` raises or gives something else.
    """
    if workflow.find_by is None:
        return ()
    try:
        given = workflow.find_by(payload)
        if isinstance(given, str):
            raise TypeError("find_by gives a list of texts, not a text")  # noqa: TRY301 - told as any defect of it
        texts = [text for text in islice(given, MOST_STEPS) if text is not None]
        keys = tuple(dict.fromkeys(search_key(text) for text in texts if text.strip()))
    except Exception as fault:
        raise UnfitOrderError("The texts by which it is found can't be told.") from fault
    if len(keys) > MAX_KEYS:
        raise UnfitOrderError(f"It is found by {len(keys)} texts; at most {MAX_KEYS} are possible.")
    if steps + len(keys) > MOST_STEPS:
        both = f"Its {steps} steps and items and the {len(keys)} texts by which it is found"
        raise UnfitOrderError(f"{both} are more than {MOST_STEPS} together.")
    return keys
