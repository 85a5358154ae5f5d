"""HTTP in, and the response through an output binding of its own."""

from __future__ import annotations

import azure.functions as func

app = func.Blueprint()


@app.route("response", binding_arg_name="response")
def response(req: func.HttpRequest, response: func.Out[func.HttpResponse]) -> None:
    """Set the response."""
    response.set(func.HttpResponse(req.get_body(), status_code=201, headers={"X-Made-By": "response"}))
