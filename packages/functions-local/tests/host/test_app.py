"""What the host reads from the app: its functions, and the queues that bindings name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from functions_local.app import Function, ServiceBusOutput, ServiceBusTrigger, read_functions
from functions_local.configuration import AppSettings, StartError
from functions_local.queues import queue_configuration
from functions_local.worker import Indexed
from tests.host.processes import APP, print_queues

BLOB = {"direction": "IN", "type": "blobTrigger", "name": "blob"}


def test_disabled_function_may_have_what_is_not_supported() -> None:
    """The app starts without it."""
    function = Indexed("f", "1", [BLOB])
    with pytest.raises(StartError, match="function f has the trigger blobTrigger"):
        read_functions([function], AppSettings({}))
    assert read_functions([function], AppSettings({"AzureWebJobs.f.Disabled": "true"})) == []


def test_each_queue_is_listed_once() -> None:
    """In any case of letters; a dead-letter queue belongs to its queue."""
    triggers = [
        ServiceBusTrigger("m", "Bus", queue, many=False)
        for queue in ("b/$deadletterqueue", "a", "c/$Transfer/$DeadLetterQueue", "B")
    ]
    functions = [
        Function("f", "1", trigger, (), (ServiceBusOutput("o", "Bus", "A"),), None) for trigger in triggers
    ]
    names = [queue["name"] for queue in queue_configuration(functions)["queues"]]
    assert [name.lower() for name in names] == ["a", "b", "c"]


@pytest.mark.process
def test_queues_of_an_app_are_printed_without_any_connection(tmp_path: Path) -> None:
    """Triggers and outputs, settings resolved; the connection's setting is not needed, nothing is written."""
    app = shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    found = print_queues(app, TICK="0 0 0 1 1 *", MANY_QUEUE="several", TRACES=str(tmp_path))
    assert found == {"queues": [{"name": "answers"}, {"name": "one"}, {"name": "several"}]}
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


@pytest.mark.process
def test_nothing_else_is_printed_with_the_queues(tmp_path: Path) -> None:
    """What the app writes while it is imported goes to stderr, in every way; its thread delays no exit."""
    code = """
import os, threading
import azure.functions as func
print("hello from the app")
os.write(1, b"hello from its descriptor")
os.system("echo hello from its child process")
threading.Thread(target=threading.Event().wait).start()
app = func.FunctionApp()

@app.route(route="hi")
def hi(req: func.HttpRequest) -> str:
    return "hi"
"""
    (tmp_path / "host.json").write_text("{}")
    (tmp_path / "function_app.py").write_text(code)
    assert print_queues(tmp_path) == {"queues": []}
