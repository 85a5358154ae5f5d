"""The bindings and the package as azure-functions-durable 2.x has them: gRPC, and no module `models`."""

from __future__ import annotations

import sys
from types import ModuleType

import azure.functions as func

sys.modules["azure.durable_functions"] = ModuleType("azure.durable_functions")
app = func.FunctionApp()


@app.generic_trigger(arg_name="context", type="orchestrationTrigger", durableRequiresGrpc=True)
def orchestrator(context) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 - as the package makes it
    """Take and return base64 of a protobuf message."""
    return str(context)


@app.route("left", auth_level=func.AuthLevel.ANONYMOUS)
def left(req: func.HttpRequest) -> str:
    """Answer."""
    return req.method
