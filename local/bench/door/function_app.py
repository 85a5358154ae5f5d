"""The application, with one more function for comparison: a bare FastAPI route, which keeps nothing."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func
from fastapi import FastAPI, Response

from functions.settings import load_settings
from functions.wiring import Wiring, collect_garbage_rarely
from functions.workflows.orders.models import OrderPayload
from functions.workflows.registry import load_registrations

bare = FastAPI(openapi_url=None)


@bare.put("/api/bare/{order_id}", status_code=202)
async def put(order_id: str, order: OrderPayload, response: Response) -> dict[str, str]:  # noqa: ARG001 - it is checked
    """Check an order, and answer as the application does."""
    location = response.headers["Location"] = f"/api/bare/{order_id}"
    return {"id": order_id, "location": location}


wiring = Wiring(load_settings(), load_registrations())
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)


@app.function_name("bare")
@app.route(route="bare/{id}", methods=["PUT"], auth_level=func.AuthLevel.FUNCTION)
async def answer(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Hand the request over as the SDK does."""
    answered: func.HttpResponse = await func.AsgiMiddleware(bare).handle_async(req, context)
    return answered


collect_garbage_rarely()
