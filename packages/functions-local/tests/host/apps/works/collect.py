"""A queue in, in batches, and another out."""

from __future__ import annotations

import typing

import azure.functions as func

app = func.Blueprint()


@app.service_bus_queue_trigger(
    arg_name="messages", connection="Bus", queue_name="batch", cardinality=func.Cardinality.MANY
)
@app.service_bus_queue_output(arg_name="text", connection="Bus", queue_name="out")
async def collect(messages: typing.List[func.ServiceBusMessage], text: func.Out[str]) -> None:  # noqa: UP006 - the worker accepts only this
    """Send the texts of the batch, joined."""
    text.set(" ".join(message.get_body().decode() for message in messages))
