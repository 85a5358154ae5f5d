"""Topics and sessions of Service Bus."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.service_bus_topic_trigger(arg_name="message", connection="Bus", topic_name="t", subscription_name="s")
def on_topic(message: func.ServiceBusMessage) -> None:
    """Read a subscription."""


@app.route("topic")
@app.service_bus_topic_output(arg_name="message", connection="Bus", topic_name="t")
def sends_to_topic(req: func.HttpRequest, message: func.Out[str]) -> str:
    """Send to a topic."""
    message.set(req.url)
    return "sent"


@app.service_bus_queue_trigger(
    arg_name="message", connection="Bus", queue_name="sessions", is_sessions_enabled=True
)
def on_session(message: func.ServiceBusMessage) -> None:
    """Read the sessions of a queue."""
