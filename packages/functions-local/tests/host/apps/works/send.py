"""HTTP in, messages out: the body goes to a queue through an output binding."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("send", methods=["POST"])
@app.service_bus_queue_output(arg_name="message", connection="Bus", queue_name="in")
def send(req: func.HttpRequest, message: func.Out[str]) -> str:
    """Send it; a JSON array is one message for each of its elements."""
    message.set(req.get_body().decode())
    return "sent"
