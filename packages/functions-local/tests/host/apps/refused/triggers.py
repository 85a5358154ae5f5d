"""Triggers of services that the host does not have, or not so."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.queue_trigger(arg_name="message", queue_name="q", connection="AzureWebJobsStorage")
def on_queue(message: func.QueueMessage) -> None:
    """Read a storage queue."""


@app.blob_trigger(arg_name="blob", path="in/{name}", connection="AzureWebJobsStorage")
def on_blob(blob: func.InputStream) -> None:
    """Read new blobs."""


@app.event_hub_message_trigger(arg_name="event", event_hub_name="hub", connection="Hub")
def on_event(event: func.EventHubEvent) -> None:
    """Read an event hub, one event at a time."""


@app.cosmos_db_trigger(arg_name="rows", connection="Db", database_name="db", container_name="c")
def on_rows(rows: func.DocumentList) -> None:
    """Read changes of a container."""
