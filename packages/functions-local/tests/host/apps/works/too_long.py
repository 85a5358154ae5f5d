"""Functions that run for longer than functionTimeout."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import azure.functions as func

app = func.Blueprint()


@app.route("too_long/async")
async def too_long(req: func.HttpRequest) -> str:
    """Wait on the loop."""
    await asyncio.sleep(60)
    return req.url


@app.route("too_long/thread")
def too_long_on_a_thread(req: func.HttpRequest) -> str:
    """Wait on a thread."""
    time.sleep(60)
    return req.url


@app.route("too_long/disobeys")
async def too_long_and_disobeys(req: func.HttpRequest) -> str:  # noqa: ARG001 - the binding requires it
    """Wait on the loop, whatever happens."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
