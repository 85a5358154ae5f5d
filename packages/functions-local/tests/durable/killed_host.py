"""A host to be killed: `python -m tests.durable.killed_host DATABASE LOG [shared]`; prints its port.

Its orchestrator uses every feature; LOG gets a line for each start and end of an activity.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import azure.durable_functions as df
from aiohttp import web

from functions_local.durable import EngineOptions
from tests.durable.sdk import SdkApp
from tests.durable.workflows import Steps, add_one, slow


def killed_app(log: Path) -> SdkApp:
    """Return the app."""
    app = SdkApp()

    @app.activity
    async def noted(seconds: float) -> str:
        _note(log, "begin")
        answer = await slow(seconds)
        _note(log, "end")
        return answer

    @app.orchestrator
    def everything(context: df.DurableOrchestrationContext) -> Steps:
        first = yield context.call_activity("add_one", 1)
        activity = context.call_activity("noted", 0.15)
        timer = context.create_timer(context.current_utc_datetime + timedelta(seconds=30))
        yield context.task_any([activity, timer])
        timer.cancel()
        yield context.create_timer(context.current_utc_datetime + timedelta(milliseconds=300))
        approved = yield context.wait_for_external_event("approve")
        both = yield context.task_all([context.call_activity("add_one", n) for n in (10, 20)])
        return [first, activity.result, approved, both]

    app.activity(add_one)
    return app


def _note(log: Path, text: str) -> None:
    with log.open("a") as lines:
        lines.write(f"{text}\n")


async def _serve(database: Path, log: Path, *, is_shared: bool) -> None:
    engine = killed_app(log).engine(database, EngineOptions(is_shared=is_shared))
    await engine.start()
    application = web.Application()
    application.add_routes(engine.routes())
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2]), is_shared="shared" in sys.argv))
