"""Starting and stopping: what prevents a start, and how that is reported, and what a stop waits for."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from tests.host.conftest import SETTINGS, WITHOUT_BROKER
from tests.host.processes import APP, run_to_its_end, start_host, traces, until

pytestmark = pytest.mark.process

GOOD_APP = """
import azure.functions as func
app = func.FunctionApp()

@app.route(route="hi")
def hi(req: func.HttpRequest) -> str:
    return "hi"
"""

HUB_READER = """
import typing

@app.event_hub_message_trigger("events", event_hub_name="hub", connection="Hub", cardinality="many")
def read(events: typing.List[func.EventHubEvent]) -> None:
    pass
"""


#: Says where the host will listen, and is imported only when the test lets it.
WAITING_APP = """
import os, pathlib, time
here = pathlib.Path(__file__).parent
(here / "new").write_text(os.environ["WEBSITE_HOSTNAME"])
(here / "new").rename(here / "address")
while not (here / "go").exists():
    time.sleep(0.01)
"""


def write_app(folder: Path, code: str) -> Path:
    """Make an app folder with this function_app.py."""
    (folder / "host.json").write_text('{"version": "2.0"}')
    (folder / "function_app.py").write_text(code)
    return folder


async def refusal(app: Path, *arguments: object, **environment: str) -> str:
    """Return the one line with which the host refuses to start."""
    code, out, err = await run_to_its_end(app, *(arguments or ("--port", 0)), **environment)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


async def status(http: aiohttp.ClientSession, path: str, **headers: str) -> int:
    """Return the status with which a GET request is answered."""
    async with http.get(path, headers=headers) as response:
        return response.status


async def test_hosts_that_share_a_folder_read_no_event_hub(tmp_path: Path) -> None:
    """Each of them would read all partitions."""
    app, shared = write_app(tmp_path, f"{GOOD_APP}{HUB_READER}"), tmp_path / "shared"
    assert await refusal(app, "--port", 0, "--shared", shared) == (
        f"hosts that share {shared} cannot read event hubs (read)"
    )


async def test_taken_port_is_named(tmp_path: Path) -> None:
    """The developer learns the port and the option that changes it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = await refusal(write_app(tmp_path, GOOD_APP), "--port", port)
    assert line == f"port {port} is taken by another process; choose one with --port (0 for any)"


async def test_app_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    """The line is another than without any function."""
    line = await refusal(write_app(tmp_path, GOOD_APP), **{"AzureWebJobs.hi.Disabled": "true"})
    assert line == f"no function of {tmp_path} is left: each is disabled, or not supported"


async def test_folder_without_an_app_is_refused(tmp_path: Path) -> None:
    """No host.json means that --app is wrong."""
    assert "has no host.json (use --app)" in await refusal(tmp_path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit('STATE_SHARDS must be a number')", "STATE_SHARDS must be a number"),
        ("raise ValueError('wrong thing')", "the app cannot be loaded: ValueError: wrong thing"),
        ("import missing_module", "No module named 'missing_module'. Cannot find module. Please check the"),
        ("import azure.functions", "Could not find top level function app instances"),
        (
            GOOD_APP.replace("req: func", "other: func"),
            "declared in Python but not in the function definition",
        ),
        (GOOD_APP.replace('"hi")', '"hi/{id:nonsense}")'), "unknown route constraint 'nonsense'"),
        (
            "from pydantic import BaseModel\nclass Settings(BaseModel):\n    shards: int\nSettings()",
            "ValidationError: 1 validation error for Settings; shards; Field required",
        ),
    ],
)
async def test_app_that_cannot_be_loaded_reports_its_own_message(
    tmp_path: Path, code: str, message: str
) -> None:
    """One line with the app's message, no stack."""
    assert message in await refusal(write_app(tmp_path, code))


@pytest.mark.parametrize("arguments", [("--port", 0), ("--queues",)])
async def test_thread_of_an_app_that_cannot_be_loaded_delays_no_exit(
    tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    """The host exits with its message and code, although the app started a thread that never ends."""
    code = (
        "import threading\nthreading.Thread(target=threading.Event().wait).start()\nraise ValueError('wrong')"
    )
    assert "ValueError: wrong" in await refusal(write_app(tmp_path, code), *arguments)


async def test_status_is_running_from_the_ready_line_on_and_not_before(tmp_path: Path) -> None:
    """While the app is imported, connections are refused; one HTTP function needs no setting at all."""
    app = write_app(tmp_path, WAITING_APP + GOOD_APP)
    starting = asyncio.create_task(start_host(tmp_path, app=app))
    address = await until(lambda: (file := tmp_path / "address").exists() and file.read_text())
    async with aiohttp.ClientSession(f"http://{address}") as http:
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get("/admin/host/status")
        (tmp_path / "go").touch()
        host = await starting
        assert host.ready == f"http://{address}"
        async with http.get("/admin/host/status") as response:
            assert (response.status, (await response.json())["state"]) == (200, "Running")
        async with http.get("/api/hi") as response:
            assert await response.text() == "hi"
    assert await host.stop() == 0


async def test_verbose_shows_the_stack(tmp_path: Path) -> None:
    """With --verbose the developer sees where it happened."""
    app = write_app(tmp_path, "raise ValueError('wrong thing')")
    code, _, err = await run_to_its_end(app, "--port", 0, "--verbose")
    assert code == 2
    assert 'function_app.py", line 1' in err


async def test_missing_connection_setting_is_named_with_the_fix(tmp_path: Path) -> None:
    """A trigger's missing connection ends the start."""
    line = await refusal(APP, "--port", 0, "--data", tmp_path, TRACES="/nowhere", **SETTINGS)
    assert line == (
        'function on_one needs the setting Bus: add "Bus" to Values in local.settings.json, '
        "or set it in the environment"
    )


async def test_missing_setting_in_a_binding_is_named(tmp_path: Path) -> None:
    """The same for %NAME% in a schedule."""
    code = (
        GOOD_APP
        + '\n@app.timer_trigger(arg_name="t", schedule="%WHEN%")\ndef tick(t: func.TimerRequest): ...\n'
    )
    assert "function tick needs the setting WHEN" in await refusal(write_app(tmp_path, code))


async def test_it_does_not_run_inside_azure(tmp_path: Path) -> None:
    """The variable that Azure sets on every instance stops it."""
    assert "does not run inside Azure" in await refusal(
        write_app(tmp_path, GOOD_APP), WEBSITE_INSTANCE_ID="x"
    )


async def test_settings_file_is_used_and_the_environment_wins(tmp_path: Path) -> None:
    """Values of local.settings.json reach the app; an environment variable overrides its value."""
    (tmp_path / "local.settings.json").write_text('{"Values": {"FROM_FILE": "file", "BOTH": "file"}}')
    code = GOOD_APP + '\nimport os\nraise SystemExit(os.environ["FROM_FILE"] + " " + os.environ["BOTH"])\n'
    assert (await refusal(write_app(tmp_path, code), BOTH="environment")).endswith("file environment")


async def test_host_starts_before_the_broker(tmp_path: Path) -> None:
    """An unreachable broker delays nothing and is one warning for each queue."""
    host = await start_host(tmp_path, settings=WITHOUT_BROKER)
    await until(lambda: "function on_one: queue one is not reachable" in host.log)
    assert await host.stop() == 0


async def test_sigterm_lets_a_running_invocation_finish(tmp_path: Path) -> None:
    """The request in flight gets its response, others get 503, then the host exits with 0."""
    host = await start_host(tmp_path, settings={**WITHOUT_BROKER, "STOP_GRACE": "30"})
    async with aiohttp.ClientSession(host.ready) as http:
        request = asyncio.create_task(http.get("/api/hold"))
        await until(lambda: traces(tmp_path, "hold"))
        code = asyncio.create_task(host.stop())
        while await status(http, "/api/echo/x") != 503:
            await asyncio.sleep(0.01)
        (tmp_path / "release").touch()
        async with await request as response:
            assert await response.text() == "done"
    assert await code == 0


@pytest.mark.parametrize("function", ["slow", "thread"])
async def test_sigterm_does_not_wait_without_limit(tmp_path: Path, function: str) -> None:
    """An invocation that does not finish within the grace period is abandoned, and named in the log."""
    host = await start_host(tmp_path, settings=WITHOUT_BROKER)
    async with aiohttp.ClientSession(host.ready) as http:
        request = asyncio.create_task(http.get(f"/api/{function}/60"))
        await until(lambda: traces(tmp_path, function))
        assert await host.stop() == 0
        with pytest.raises(aiohttp.ClientError):
            await request
    assert f"stopped after 1 s without waiting for: {function}" in host.log


async def test_function_takes_its_own_keys_as_well(tmp_path: Path) -> None:
    """Not another function's; the header's stands before the query's, as in Azure."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "keys.json").write_text('{"Guarded": {"ada": "adas-own-key"}, "echo": {"bob": "bobs-own-key"}}')
    host = await start_host(tmp_path, "--enforce-auth", settings=WITHOUT_BROKER)
    async with aiohttp.ClientSession(host.ready) as http:
        assert await status(http, "/api/guarded", **{"x-functions-key": "adas-own-key"}) == 200
        assert await status(http, "/api/guarded?code=adas-own-key") == 200
        assert await status(http, "/api/guarded?code=adas-own-key", **{"x-functions-key": "x"}) == 401
        assert await status(http, "/api/guarded", **{"x-functions-key": "bobs-own-key"}) == 401
        assert await status(http, "/admin/functions", **{"x-functions-key": "adas-own-key"}) == 401
    await host.stop()


async def test_file_of_keys_that_cannot_be_read_prevents_a_start(tmp_path: Path) -> None:
    """It is named, and none of its keys is shown."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "keys.json").write_text('{"guarded": "adas-own-key"}')
    app = write_app(tmp_path, GOOD_APP)
    line = await refusal(app, "--enforce-auth", "--data", data)
    assert "keys.json must hold" in line
    assert "adas-own-key" not in line


async def test_enforced_keys_guard_functions_and_administration(tmp_path: Path) -> None:
    """401 without the key, 200 with it in header or query; anonymous functions need none."""
    host = await start_host(tmp_path, "--enforce-auth", settings=WITHOUT_BROKER)
    key = (tmp_path / "data" / "master.key").read_text()
    assert (tmp_path / "data" / "master.key").stat().st_mode & 0o077 == 0

    async with aiohttp.ClientSession(host.ready) as http:
        assert await status(http, "/api/echo/x") == 201
        assert await status(http, "/api/guarded") == 401
        assert await status(http, "/api/guarded?code=wrong") == 401
        assert await status(http, f"/api/guarded?code={key}") == 200
        assert await status(http, "/api/guarded", **{"x-functions-key": key}) == 200
        assert await status(http, "/admin/functions") == 401
        assert await status(http, "/admin/functions", **{"x-functions-key": key}) == 200
    await host.stop()
