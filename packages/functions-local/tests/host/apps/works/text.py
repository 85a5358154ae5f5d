"""HTTP in, a text out."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("text/{name}")
def text(req: func.HttpRequest) -> str:
    """Return the text."""
    return f"Hello, {req.route_params['name']}!"
