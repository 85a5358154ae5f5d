"""The texts of errors: of exceptions, without values of the input, and the cause of a task's error.

The cause is the failed step and the class of the error. Operators search and group tasks by it. A class is
the text of an error without the parts that differ between tasks that failed for one cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from functions.core.json_values import UnfitValueError, bounded
from functions.core.record import NAME_PATTERN, TaskRecord

#: Faults in the text of a validation error, and bytes of the place of each one.
_MOST_FAULTS, _MOST_PLACE_BYTES = 3, 256
#: Bytes of a class, which is a column of an index row and a parameter of a list.
MOST_CLASS_BYTES = 256
_PLACEHOLDER = "…"
#: The error of a step begins with its name. The number of an item does not belong to the cause.
_STEP = re.compile(rf"((?:undo of )?({NAME_PATTERN}))(?:\.\d+)?: ")
_STATUS = r"answered \d{3}(?!\w)"
_QUOTED = r""""[^"]*"|`[^`]*`|“[^”]*”|(?:^|(?<=[\s(\[{=:,]))'[^']*'(?=[\s)\]}=:,.;!?]|$)"""
_WORD = r"[\w./:+@-]+(?:(?<=\w)'\w[\w./:+@-]*)*"  # with its apostrophes, as in "can't"
_PARTS = re.compile(rf"({_STATUS})|{_QUOTED}|{_WORD}|[\"`“”']")


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
    return "; ".join(_fault_text(fault["loc"][:levels], fault_message(fault)) for fault in faults)


def fault_message(fault: Mapping[str, Any]) -> str:
    """Return the message of a fault as pydantic lists it. That of a wrong tag quotes the input."""
    message: str = fault["msg"]
    return "Input should have one of the expected tags" if fault["type"] == "union_tag_invalid" else message


def _fault_text(place: Sequence[str | int], text: str) -> str:
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    named = bounded("".join(parts).removeprefix("."), _MOST_PLACE_BYTES)
    text = text.removeprefix("Value error, ")
    return f"{named}: {text}" if named else text


def failed_step(record: TaskRecord) -> str | None:
    """Return the defined step that the error of a task names, None if it names none."""
    found = _STEP.match(record.error or "")
    return found[2] if found and found[2] in {spec.step for spec in record.order.specs} else None


def error_class(text: str, task: str | None = None) -> str:
    """Return an error text without numbers, ids and quoted texts; `task` is the id of the failed task.

    The status of an answer stays, because it is the cause. A class is its own class.
    """
    text = bounded(text)
    step = _STEP.match(text)
    start, rest = (f"{step[1]}: ", text[step.end() :]) if step else ("", text)
    if task is not None:
        rest = re.sub(rf"(?<![\w-]){re.escape(task)}(?![\w-])", _PLACEHOLDER, rest)
    found = start + _PARTS.sub(_generalized, rest)
    shorter = bounded(found, MOST_CLASS_BYTES)
    return found if shorter == found else error_class(shorter)  # the cut may have left a part of a word


def _generalized(part: re.Match[str]) -> str:
    """Return a placeholder for a part that differs between tasks, and any other part as it is."""
    text = part[0]
    differs = text[0] in "\"`“”'" or any(each.isdigit() for each in text)
    return _PLACEHOLDER if differs and part[1] is None else text
