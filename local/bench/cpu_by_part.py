"""Tells from a flame graph which part of the application or of the host the CPU time goes to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree as ET

_SVG = "{http://www.w3.org/2000/svg}"
_INFERNO = "{http://github.com/jonhoo/inferno}"


class HostPart(StrEnum):
    """What the host's CPU time is spent on; a library of nobody's own belongs to its caller."""

    #: Rows and transactions of the state store, with the SDK.
    TABLES = "tables"
    #: Episodes, activities and history of the local Durable engine, and the SDK's replay.
    DURABLE = "Durable"
    #: Requests of callers and operators, with FastAPI.
    HTTP = "HTTP"
    #: Sending and receiving messages, with the SDK.
    MESSAGES = "messages"
    #: Planning, transitions, steps, and Agents.
    PATTERN = "pattern"
    #: Spans and metrics.
    TELEMETRY = "telemetry"
    #: The host's way to a function and back, with Microsoft's worker.
    INVOCATIONS = "invocations"
    #: The event loop, its sockets, and everything that no part calls.
    REST = "event loop"


#: Folders, most specific first.
_FOLDERS = {
    HostPart.TABLES: "functions/store|azure/data/tables|azure/core",
    HostPart.DURABLE: "functions_local/(durable|orchestrations)|azure/durable_functions",
    HostPart.HTTP: "functions/(web|api|operations)|functions_local/http|fastapi|starlette",
    HostPart.MESSAGES: "functions/(bus|messages)|functions_local/messaging|azure/servicebus",
    HostPart.TELEMETRY: "functions/telemetry|opentelemetry",
    HostPart.PATTERN: "functions/|local/bench/",
    HostPart.INVOCATIONS: "functions_local/(invocations|worker)|azure_functions_runtime|azure/functions",
}
_PARTS = {part: re.compile(rf"[(/](?:{folders})") for part, folders in _FOLDERS.items()}


@dataclass(frozen=True, slots=True)
class _Frame:
    """One frame of the graph: so many samples from `first` on, at a depth."""

    depth: float
    first: int
    samples: int
    function: str

    def is_above(self, other: _Frame) -> bool:
        """Tell whether this called the other, perhaps through frames between them."""
        return self.depth < other.depth and self.first <= other.first < self.first + self.samples


def cpu_shares(graph: str) -> Mapping[HostPart, float]:
    """Return each part's share of all samples in a flame graph.

    A sample belongs to the part that is nearest to its top: what a library of nobody's own does (parsing,
    waiting, sockets) belongs to the part that called it.
    """
    own: Counter[HostPart] = Counter()
    stack: list[tuple[_Frame, HostPart]] = []
    frames = sorted(_frames(graph), key=lambda frame: (frame.first, frame.depth))
    for frame in frames:
        while stack and not stack[-1][0].is_above(frame):
            stack.pop()
        above = stack[-1][1] if stack else HostPart.REST
        part = _part_of(frame.function) or above
        own[part] += frame.samples
        if stack:
            own[above] -= frame.samples
        stack.append((frame, part))
    total = own.total()
    return {part: own[part] / total for part in HostPart}


def _part_of(function: str) -> HostPart | None:
    return next((part for part, folders in _PARTS.items() if folders.search(function)), None)


def _frames(graph: str) -> list[_Frame]:
    found = []
    for group in ET.fromstring(graph).iter(f"{_SVG}g"):  # noqa: S314 - our own sampler's file
        title, box = group.find(f"{_SVG}title"), group.find(f"{_SVG}rect")
        if title is not None and box is not None and title.text:
            first, samples = (int(box.attrib[f"{_INFERNO}{name}"]) for name in ("x", "w"))
            found.append(_Frame(float(box.attrib["y"]), first, samples, title.text))
    return found
