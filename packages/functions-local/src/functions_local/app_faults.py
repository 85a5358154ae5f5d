"""Faults of an app, found when it is read, one sentence each: mistakes, and what this host does not support.

The table of the README has the same sentences of unsupported parts. The SDK's own decorators prevent most
mistakes, but not in generic bindings (`generic_trigger`, …) or names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from functions_local.configuration import is_true
from functions_local.worker import Indexed


def unsupported_parts(function: Indexed, supported: Collection[str]) -> list[str]:
    """Return a sentence for each unsupported part of a function, with the names of both.

    `supported` are the binding types that this host supports.
    """
    parts = [part for binding in function.bindings for part in _parts_of(binding, supported)]
    parts += function.extensions
    return [f"function {function.name} has {part}, which the local host does not support" for part in parts]


def functions_of_model_v1(folder: Path) -> list[str]:
    """Return a sentence for each function of the v1 programming model, a folder with a function.json."""
    return [
        f"function {file.parent.name} is of the v1 programming model ({file.parent.name}/function.json), "
        "which the local host does not support"
        for file in sorted(folder.glob("*/function.json"))
    ]


def _parts_of(binding: Mapping[str, Any], supported: Collection[str]) -> Iterator[str]:
    kind, parameter = binding["type"], binding["name"]
    if kind not in supported:
        yield f"the {_role(binding)} {kind} ({parameter})"
    elif binding.get("durableRequiresGrpc"):
        yield f"the binding {kind} ({parameter}) of azure-functions-durable 2.x"
    elif kind.startswith("serviceBus") and "topicName" in binding:
        yield f"a Service Bus topic as {_role(binding)} ({parameter})"
    elif kind == "eventHubTrigger" and str(binding.get("cardinality", "ONE")).upper() != "MANY":
        yield f"an Event Hubs trigger for one event at a time ({parameter})"
    elif is_true(binding.get("isSessionsEnabled")):
        yield f"sessions on its Service Bus trigger ({parameter})"
    elif (binding.get("properties") or {}).get("SupportsDeferredBinding"):
        yield f"an SDK type as its parameter ({parameter})"


def _role(binding: Mapping[str, Any]) -> str:
    if binding["type"].lower().endswith("trigger"):
        return "trigger"
    return "input binding" if str(binding["direction"]).upper() == "IN" else "output binding"


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
