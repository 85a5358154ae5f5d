"""Outputs of services that the host does not have."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("queue")
@app.queue_output(arg_name="message", queue_name="q", connection="AzureWebJobsStorage")
def sends_to_queue(req: func.HttpRequest, message: func.Out[str]) -> str:
    """Send to a storage queue."""
    message.set(req.url)
    return "sent"


@app.route("write")
@app.blob_output(arg_name="blob", path="out/a", connection="AzureWebJobsStorage")
@app.table_output(arg_name="row", table_name="t", connection="AzureWebJobsStorage")
def writes(req: func.HttpRequest, blob: func.Out[str], row: func.Out[str]) -> str:
    """Write a blob and a row."""
    blob.set(req.url)
    row.set(req.url)
    return "written"


@app.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *")
@app.event_hub_output(arg_name="$return", event_hub_name="hub", connection="Hub")
def sends_event(timer: func.TimerRequest) -> str:
    """Send to an event hub."""
    return str(timer.past_due)
