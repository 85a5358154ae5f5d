"""The texts of exceptions, without values of the input."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from functions.core.json_values import UnfitValueError, bounded

#: Faults in the text of a validation error, and bytes of the place of each one.
_MOST_FAULTS, _MOST_PLACE_BYTES = 3, 256


def error_text(defect: BaseException) -> str:
    """Return the type and the text of an exception, printable, in at most `MOST_ERROR_BYTES`.

    The text of a validation error holds no input: it names fields of the model and no place below them, since
    names below a field may be secret. An exception whose text cannot be made costs its text only.
    """
    if isinstance(defect, ValidationError):
        return bounded(f"{defect.title} rejects it: {faults_text(defect, levels=1)}")
    try:
        text = str(defect)
    except Exception as fault:  # noqa: BLE001 - an exception of a definition may raise anything
        text = f"(its text raises {type(fault).__name__})"
    return bounded(text if isinstance(defect, UnfitValueError) else f"{type(defect).__name__}: {text}")


def faults_text(error: ValidationError, *, levels: int | None = None) -> str:
    """Return the first faults as `place: fault`, without values.

    With `levels`, places have at most that number of names: names below a secret field are secret, too.
    """
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_FAULTS]
    return "; ".join(_fault_text(fault["loc"][:levels], fault["msg"]) for fault in faults)


def _fault_text(place: Sequence[str | int], text: str) -> str:
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    named = bounded("".join(parts).removeprefix("."), _MOST_PLACE_BYTES)
    text = text.removeprefix("Value error, ")
    return f"{named}: {text}" if named else text
