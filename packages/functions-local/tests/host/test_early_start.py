"""An app that is loaded after its services answer, and modules that are imported before it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from functions_local.early_start import Address, preload, until_all_answer
from tests.host.processes import STARTED, run_to_its_end, start_host, until
from tests.host.test_start import GOOD_APP, write_app

_MODULE = """
import pathlib
(pathlib.Path(__file__).parent / "preloaded").touch()
"""
_APP = f"""
import pathlib
(pathlib.Path(__file__).parent / "loaded").touch()
{GOOD_APP}"""


@pytest.mark.parametrize("text", ["", "7071", "localhost:", ":1", "localhost:http", "ftp://x"])
def test_a_malformed_address_is_refused(text: str) -> None:
    """A URL or HOST:PORT."""
    with pytest.raises(ValueError, match="neither a URL"):
        Address.parse(text)


async def test_it_waits_for_a_port_and_for_a_url_whatever_it_answers() -> None:
    """Azurite answers 400 to a plain GET; both must be there."""
    tcp, http = unused_port(), unused_port()
    addresses = [Address.parse(f"127.0.0.1:{tcp}"), Address.parse(f"http://127.0.0.1:{http}/x")]
    waiting = asyncio.create_task(until_all_answer(addresses))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", tcp)
    async with server:
        assert await addresses[0].answers()
        assert not await addresses[1].answers()
        assert not waiting.done()
        runner = web.AppRunner(web.Application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", http).start()
        await asyncio.wait_for(waiting, 60)
        await runner.cleanup()


def test_module_that_cannot_be_imported_early_is_only_reported(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may need what the app is loaded after; the app's own import of it decides."""
    (tmp_path / "needs_its_service.py").write_text("raise SystemExit('no service')")
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level(logging.WARNING):
        preload(["needs_its_service", "no_such_module"])
    assert "needs_its_service cannot be imported before the app: SystemExit('no service')" in caplog.text
    assert "no_such_module" in caplog.text


@pytest.mark.process
async def test_app_is_loaded_when_its_service_answers_and_a_module_before(tmp_path: Path) -> None:
    """The host starts beside the service."""
    app, port = write_app(tmp_path, _APP), unused_port()
    (app / "early.py").write_text(_MODULE)
    options = ("--preload", "early", "--after", f"127.0.0.1:{port}")
    starting = asyncio.create_task(start_host(tmp_path, *options, app=app))
    await until((app / "preloaded").exists)
    assert not (app / "loaded").exists()
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
        host = await starting
    assert (app / "loaded").exists()
    assert await host.stop() == 0


@pytest.mark.process
async def test_a_host_that_waits_ends_at_once_when_it_is_stopped(tmp_path: Path) -> None:
    """Nothing is in flight."""
    app = write_app(tmp_path, _APP)
    (app / "early.py").write_text(_MODULE)
    options = ("--port", 0, "--preload", "early", "--after", f"127.0.0.1:{unused_port()}")
    running = asyncio.create_task(run_to_its_end(app, *options))
    await until((app / "preloaded").exists)
    STARTED[-1].terminate()
    assert (await running)[:2] == (0, "")


@pytest.mark.process
async def test_an_invalid_address_is_a_wrong_argument(tmp_path: Path) -> None:
    """The error names the argument and the expected forms."""
    code, _, err = await run_to_its_end(tmp_path, "--after", "7071")
    assert code == 2
    assert "'7071' is neither a URL (http://…) nor HOST:PORT" in err
