"""What the host has: --skip-unsupported starts with this alone."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("left")
def left(req: func.HttpRequest) -> str:
    """Answer."""
    return req.method
