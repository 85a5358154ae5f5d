"""A supported function: with --skip-unsupported the app starts with only this one."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("left")
def left(req: func.HttpRequest) -> str:
    """Answer."""
    return req.method
