"""Unsupported parts of an app, found when the app is read: one sentence for each part.

The table of the README has the same sentences.
"""

from __future__ import annotations

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
