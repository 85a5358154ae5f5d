"""Fixtures: a running engine for the test's own app, and a server for the management API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from functions_local.durable import DurableEngine, EngineOptions
from tests.durable.sdk import SdkApp
from tests.durable.workflows import standard_app

type StartEngine = Callable[..., Awaitable[DurableEngine]]
type ApiClient = TestClient[web.Request, web.Application]


@pytest.fixture
def app() -> SdkApp:
    """Return an app with the standard orchestrators and activities."""
    return standard_app()


@pytest.fixture
async def start_engine(app: SdkApp, tmp_path: Path) -> AsyncIterator[StartEngine]:
    """Return a function that starts an engine on the test's database; it is stopped at the end."""
    async with AsyncExitStack() as running:

        async def start(options: EngineOptions | None = None, invoke: object = None) -> DurableEngine:
            engine = app.engine(tmp_path / "durable.sqlite", options, invoke)
            await engine.start()
            running.push_async_callback(engine.stop)
            return engine

        yield start


@pytest.fixture
async def engine(start_engine: StartEngine) -> DurableEngine:
    """Return a running engine."""
    return await start_engine()


@pytest.fixture
async def http(engine: DurableEngine) -> AsyncIterator[ApiClient]:
    """Return an HTTP client of the engine's management API."""
    application = web.Application()
    application.add_routes(engine.routes())
    async with TestClient(TestServer(application)) as client:
        yield client
