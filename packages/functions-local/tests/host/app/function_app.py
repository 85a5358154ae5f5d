"""The function app that the host's tests run: every kind of trigger, each writing a trace file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import typing
from pathlib import Path

import azure.functions as func
from fastapi import FastAPI, Response
from pydantic import BaseModel

from functions_local import host

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)

TRACES = Path(os.environ["TRACES"])
# A test may give a stopping host more seconds than one: a busy machine needs them.
host.STOP_GRACE = float(os.environ.get("STOP_GRACE", host.STOP_GRACE))
#: One entry for each call that `hold` holds now.
HELD: list[None] = []


def trace(name: str, **facts: object) -> None:
    """Add a line to a trace file; tests read it."""
    with (TRACES / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps({"at": time.time(), **facts}, default=str) + "\n")


async def hold() -> None:
    """Trace how many calls are held now, and wait until the test releases them."""
    HELD.append(None)
    trace("hold", running=len(HELD))
    while not (TRACES / "release").exists():
        await asyncio.sleep(0.01)
    HELD.pop()


# ---- HTTP ----


@app.route(route="echo/{name}", methods=["GET", "POST", "PUT"])
async def echo(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Answer with everything that came in."""
    logging.getLogger("app").info("echo is running")
    answer = {
        "method": req.method,
        "url": req.url,
        "headers": dict(req.headers),
        "query": dict(req.params),
        "route": dict(req.route_params),
        "body": req.get_body().decode("latin-1"),
        "function": context.function_name,
        "invocation": context.invocation_id,
    }
    return func.HttpResponse(
        json.dumps(answer), mimetype="application/json", status_code=201, headers={"X-Echo": "1"}
    )


@app.route(route="echo/{number:int}", methods=["GET"])
async def echo_number(req: func.HttpRequest) -> str:
    """Take precedence over `echo` for whole numbers."""
    return f"number {req.route_params['number']}"


@app.route(route="echo/fixed", methods=["GET"])
def echo_fixed(req: func.HttpRequest) -> str:  # noqa: ARG001 - the binding requires it
    """Take precedence over both, and run on a thread."""
    logging.getLogger("app").info("fixed is running")
    return "fixed"


@app.route(route="bytes", methods=["POST", "HEAD"])
async def bytes_back(req: func.HttpRequest) -> func.HttpResponse:
    """Return the body unchanged."""
    return func.HttpResponse(req.get_body(), mimetype="application/octet-stream")


@app.route(route="cookies", methods=["GET"])
async def cookies(req: func.HttpRequest) -> func.HttpResponse:  # noqa: ARG001 - the binding requires it
    """Set two cookies."""
    response = func.HttpResponse("ok")
    response.headers.add("Set-Cookie", "a=1; Path=/; HttpOnly; SameSite=Lax; Max-Age=60")
    response.headers.add("Set-Cookie", "b=x|y; Secure; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
    return response


@app.route(route="status/{status}")
async def status(req: func.HttpRequest) -> func.HttpResponse:
    """Answer with a status, which may be none."""
    return func.HttpResponse(status_code=req.route_params["status"])


@app.route(route="exits/thread")
def exits_on_a_thread(req: func.HttpRequest) -> str:
    """End the process, as far as it can."""
    sys.exit(f"exit asked by {req.method}")


@app.route(route="exits/{error}")
async def exits(req: func.HttpRequest) -> str:
    """Raise what no `except Exception` catches."""
    errors = {"exit": SystemExit, "interrupt": KeyboardInterrupt, "cancelled": asyncio.CancelledError}
    raise errors[req.route_params["error"]]("on purpose")


@app.route(route="raises", methods=["GET"])
async def raises(req: func.HttpRequest) -> str:  # noqa: ARG001 - the binding requires it
    """Fail."""
    raise ValueError("boom")


@app.route(route="blocks", methods=["GET"])
async def blocks(req: func.HttpRequest) -> str:  # noqa: ARG001 - the binding requires it
    """Block, which an async function must not do, until the test has seen what it waits for."""
    while not (TRACES / "unblock").exists():
        time.sleep(0.05)  # noqa: ASYNC251 - blocking is the point
    return "done"


@app.route(route="slow/{seconds}", methods=["GET"])
async def slow(req: func.HttpRequest) -> str:
    """Take some time without blocking."""
    trace("slow", event="began")
    await asyncio.sleep(float(req.route_params["seconds"]))
    trace("slow", event="ended")
    return "done"


@app.route(route="hold", methods=["GET"])
async def held(req: func.HttpRequest) -> str:  # noqa: ARG001 - the binding requires it
    """Wait until the test releases it."""
    await hold()
    return "done"


@app.route(route="thread/{seconds}", methods=["GET"])
def thread(req: func.HttpRequest) -> str:
    """Take some time on a thread, which cannot be interrupted."""
    trace("thread", event="began")
    time.sleep(float(req.route_params["seconds"]))
    return "done"


@app.route(route="guarded", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
async def guarded(req: func.HttpRequest) -> str:  # noqa: ARG001 - the binding requires it
    """Need a key when keys are enforced."""
    return "let in"


class Item(BaseModel):
    """A body that FastAPI checks."""

    name: str
    count: int


web = FastAPI()
fastapi = func.AsgiMiddleware(web)  # type: ignore[no-untyped-call]  # the SDK leaves its constructor untyped


@web.post("/api/web/items", status_code=202)
async def create_item(item: Item, response: Response) -> dict[str, object]:
    """Return a header of its own."""
    response.headers["Location"] = f"/api/web/items/{item.name}"
    return {"name": item.name, "count": item.count}


@web.get("/api/web/items/{name}")
async def read_item(name: str, tag: str | None = None) -> dict[str, str | None]:
    """Answer with path and query values."""
    return {"name": name, "tag": tag}


@app.route(route="web/{*route}", methods=list(func.HttpMethod))
async def fastapi_app(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Hand everything below /api/web to FastAPI."""
    response: func.HttpResponse = await fastapi.handle_async(req, context)
    return response


# ---- timers ----


@app.timer_trigger(schedule="%TICK%", arg_name="timer", run_on_startup=True)
def tick(timer: func.TimerRequest) -> None:
    """Run at startup, then on schedule."""
    trace("tick", past_due=timer.past_due)


@app.timer_trigger(schedule="0 0 0 1 1 *", arg_name="timer")
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:00")
def fails_twice(timer: func.TimerRequest, context: func.Context) -> None:  # noqa: ARG001 - the binding requires it
    """Fail until its last retry."""
    trace("fails_twice", retry=context.retry_context.retry_count)
    if context.retry_context.retry_count < 2:
        raise RuntimeError("not yet")


# ---- Service Bus ----


@app.service_bus_queue_trigger(arg_name="message", queue_name="one", connection="Bus")
@app.service_bus_queue_output(arg_name="answer", queue_name="answers", connection="Bus")
async def on_one(message: func.ServiceBusMessage, answer: func.Out[str]) -> None:
    """Take one message; its body says what to do."""
    body = message.get_body().decode()
    trace(
        "one",
        body=body,
        id=message.message_id,
        deliveries=message.delivery_count,
        properties=message.application_properties,
        correlation=message.correlation_id,
        subject=message.subject,
        reply_to=message.reply_to,
        content_type=message.content_type,
        enqueued=message.enqueued_time_utc,
        sequence=message.sequence_number,
    )
    if body.startswith("fail"):
        raise RuntimeError(body)
    if body.startswith("hold"):
        await hold()
    if body.startswith("sleep"):
        await asyncio.sleep(float(body.split()[1]))
        trace("slept", body=body)
    if body.startswith("answer"):
        answer.set(f"re: {body}")


@app.service_bus_queue_trigger(
    arg_name="messages", queue_name="%MANY_QUEUE%", connection="Bus", cardinality=func.Cardinality.MANY
)
async def on_many(messages: typing.List[func.ServiceBusMessage]) -> None:  # noqa: UP006 - the worker accepts only this
    """Take a batch; the body of its first message says what to do."""
    trace(
        "many",
        bodies=[message.get_body().decode() for message in messages],
        ids=[message.message_id for message in messages],
        properties=[message.application_properties for message in messages],
        deliveries=[message.delivery_count for message in messages],
    )
    first = messages[0].get_body().decode()
    if first.startswith("sleep") and messages[0].delivery_count == 1:
        await asyncio.sleep(float(first.split()[1]))


@app.service_bus_queue_trigger(arg_name="message", queue_name="one/$DeadLetterQueue", connection="Bus")
def on_dead(message: func.ServiceBusMessage) -> None:
    """Read the dead letters."""
    trace("dead", body=message.get_body().decode())


@app.service_bus_queue_trigger(arg_name="message", queue_name="one", connection="Bus")
def switched_off(message: func.ServiceBusMessage) -> None:
    """Disabled by a setting: would compete with `on_one`."""
    trace("switched_off", body=message.get_body().decode())
