"""Two functions with event hub triggers: one that tries for ever, and one without a retry policy."""

from __future__ import annotations

import asyncio
import json
import os
import typing
from pathlib import Path

import azure.functions as func

app = func.FunctionApp()

TRACES = Path(os.environ["TRACES"])


def trace(name: str, context: func.Context, events: list[func.EventHubEvent]) -> None:
    """Add a line for each event to a trace file; tests read it."""
    metadata = events[0].metadata or {}
    place = metadata["PartitionContext"]
    with (TRACES / f"{name}.jsonl").open("a") as file:
        for event in events:
            facts = {
                "body": event.get_body().decode("latin-1"),
                "partition": place["PartitionId"],
                "number": event.sequence_number,
                "offset": event.offset,
                "key": event.partition_key,
                "enqueued": str(event.enqueued_time),
                "properties": metadata["PropertiesArray"],
                "context": place,
                "retry": context.retry_context.retry_count,
                "batch": len(events),
            }
            file.write(json.dumps(facts, default=str) + "\n")


@app.event_hub_message_trigger(
    arg_name="events",
    event_hub_name="%HUB%",
    connection="Hub",
    consumer_group="ingestion",
    cardinality=func.Cardinality.MANY,
    data_type=func.DataType.BINARY,
)
@app.retry(strategy="fixed_delay", max_retry_count="-1", delay_interval="00:00:01")
async def patient(
    events: typing.List[func.EventHubEvent],  # noqa: UP006 - the worker accepts only this
    context: func.Context,
) -> None:
    """Fail while a file says so, and hold batches while another does."""
    bodies = [event.get_body() for event in events]
    if b"hold" in bodies:
        (TRACES / "held").touch()
        await asyncio.sleep(300)
    if b"fail" in bodies and (TRACES / "failing").exists():
        (TRACES / "failed").touch()
        raise RuntimeError("as asked")
    trace("patient", context, events)


@app.event_hub_message_trigger(
    arg_name="events",
    event_hub_name="%HUB%",
    connection="Hub",
    cardinality=func.Cardinality.MANY,
    data_type=func.DataType.BINARY,
)
async def careless(
    events: typing.List[func.EventHubEvent],  # noqa: UP006 - the worker accepts only this
    context: func.Context,
) -> None:
    """Fail for one body, each time."""
    trace("careless", context, events)
    if any(event.get_body() == b"bad" for event in events):
        raise RuntimeError("bad")
