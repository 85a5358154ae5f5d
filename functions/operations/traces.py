"""Where an order's trace is found: by its id, and by a link to where traces are shown."""

from __future__ import annotations

from dataclasses import dataclass

#: Stands for the trace's id in the address (`TRACE_URL_TEMPLATE`).
TRACE_ID = "{trace_id}"


@dataclass(frozen=True, slots=True)
class Traces:
    """Names traces; `url_template` is the address at which one is shown, if there is any."""

    url_template: str | None = None

    def url(self, traceparent: str | None) -> str | None:
        """Write the address of a trace, or None when there is no trace, or nowhere to look at it."""
        trace = trace_id(traceparent)
        if trace is None or self.url_template is None:
            return None
        return self.url_template.replace(TRACE_ID, trace)


def trace_id(traceparent: str | None) -> str | None:
    """Give the id out of a `traceparent`: 32 hexadecimal digits, its second part (W3C Trace Context §3.2)."""
    return None if traceparent is None else traceparent.split("-")[1]
