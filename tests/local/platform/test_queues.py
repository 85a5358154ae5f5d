"""Reading the queues of an app's bindings ends, whatever the app does while it is imported."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from local.platform.errors import PlatformError
from local.platform.queues import write_bound_queues

pytestmark = pytest.mark.process

_LEAVES_A_PROCESS_RUNNING = """
import pathlib, subprocess, sys
import azure.functions as func

app = func.FunctionApp()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(__file__).with_name("child").write_text(str(child.pid))

@app.route(route="hi")
def hi(req: func.HttpRequest) -> str:
    return "hi"
"""


def _app(folder: Path, code: str) -> Path:
    (folder / "host.json").write_text('{"version": "2.0"}')
    (folder / "function_app.py").write_text(code)
    return folder


async def test_an_app_that_is_not_loaded_in_time_is_refused_with_the_fix(tmp_path: Path) -> None:
    """The message names the limit; the process that loads the app is ended."""
    app = _app(tmp_path, "import threading\nthreading.Event().wait()")
    with pytest.raises(PlatformError, match=r"declare them in .*: loading the app took more than 0\.1 s$"):
        await write_bound_queues(app, {}, tmp_path / "queues.json", within=0.1)
    assert not (tmp_path / "queues.json").exists()
    assert str(app) not in [word for child in psutil.Process().children() for word in child.cmdline()]


async def test_a_process_that_the_app_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """The queues are written as soon as the app's own process has ended."""
    app = _app(tmp_path, _LEAVES_A_PROCESS_RUNNING)
    await write_bound_queues(app, {}, tmp_path / "queues.json")
    child = psutil.Process(int((tmp_path / "child").read_text()))
    assert child.is_running()
    child.kill()
    assert json.loads((tmp_path / "queues.json").read_text()) == {"queues": []}
