"""The application, with one more function for comparison: a bare FastAPI route, which keeps nothing."""

from __future__ import annotations

from typing import Annotated, Any

import azure.durable_functions as df
import azure.functions as func
from fastapi import Body, FastAPI, Response

from functions.machine import collect_garbage_rarely
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations

registrations = load_registrations()
payload = next(each.workflow.payload for each in registrations if each.workflow.resource == "orders")
bare = FastAPI(openapi_url=None)


@bare.put("/api/bare/{order_id}", status_code=202)
async def put(order_id: str, order: Annotated[dict[str, Any], Body()], response: Response) -> dict[str, str]:
    """Check an order, and answer as the application does."""
    payload.model_validate(order)
    location = response.headers["Location"] = f"/api/bare/{order_id}"
    return {"id": order_id, "location": location}


wiring = Wiring(load_settings(), registrations)
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
