"""Inputs of services that the host does not have."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("blob")
@app.blob_input(arg_name="blob", path="in/a", connection="AzureWebJobsStorage")
def reads_blob(req: func.HttpRequest, blob: str) -> str:
    """Read a blob."""
    return blob + req.url


@app.route("row")
@app.table_input(arg_name="row", table_name="%TABLE%", connection="AzureWebJobsStorage")
def reads_row(req: func.HttpRequest, row: str) -> str:
    """Read a table; the setting with its name is missing, too."""
    return row + req.url


@app.route("document")
@app.cosmos_db_input(arg_name="document", connection="Db", database_name="db", container_name="c", id="1")
def reads_document(req: func.HttpRequest, document: func.DocumentList) -> str:
    """Read a container."""
    return f"{document}{req.url}"
