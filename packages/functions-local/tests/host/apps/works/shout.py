"""A queue in, another out: what the function returns is sent."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.service_bus_queue_trigger(arg_name="message", connection="Bus", queue_name="in")
@app.service_bus_queue_output(arg_name="$return", connection="Bus", queue_name="batch")
def shout(message: func.ServiceBusMessage) -> str:
    """Return the message's text in capitals."""
    return message.get_body().decode().upper()
