"""Mistakes in an app that Azure refuses, found when the app is read: one sentence for each mistake.

The SDK's own decorators prevent most mistakes, but not in generic bindings (`generic_trigger`, …) or names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from functions_local.worker import Indexed

#: The names that Azure allows for a function; here they are also names of files.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,127}")

#: The required property of each binding type.
_NEEDED = {
    "timerTrigger": "schedule",
    "serviceBusTrigger": "queueName",
    "serviceBus": "queueName",
    "eventHubTrigger": "eventHubName",
}


def mistakes_in(function: Indexed) -> Iterator[str]:
    """Return a sentence for each mistake in a function, naming it."""
    if not _NAME.fullmatch(function.name):
        yield f"the function name {function.name!r} is not allowed: a letter, then letters, digits, _ and -"
    names = Counter(binding["name"] for binding in function.bindings)
    for name in (name for name, count in names.items() if count > 1):
        yield f"function {function.name} has more than one binding with the name {name}"
    triggers = [each["name"] for each in function.bindings if each["type"].lower().endswith("trigger")]
    if len(triggers) != 1:
        yield f"function {function.name} must have one trigger, not {len(triggers)}: {', '.join(triggers)}"
    for binding in function.bindings:
        needed = _NEEDED.get(binding["type"])
        if needed is not None and not binding.get(needed):
            yield f"function {function.name} has a {binding['type']} without {needed} ({binding['name']})"
