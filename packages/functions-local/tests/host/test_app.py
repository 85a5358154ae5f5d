"""What the host reads from the app: its functions, and the queues that bindings name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from functions_local.app import (
    Function,
    HttpTrigger,
    ServiceBusOutput,
    ServiceBusTrigger,
    TimerTrigger,
    read_functions,
)
from functions_local.configuration import AppSettings, StartError
from functions_local.protos import Message
from functions_local.queues import queue_configuration
from functions_local.worker import Indexed
from tests.host.processes import APP, print_queues

BLOB = {"direction": "IN", "type": "blobTrigger", "name": "blob"}


def test_disabled_function_may_have_unsupported_parts() -> None:
    """The app starts without it."""
    function = Indexed("f", "1", [BLOB])
    with pytest.raises(StartError, match="function f has the trigger blobTrigger"):
        read_functions([function], AppSettings({}))
    assert read_functions([function], AppSettings({"AzureWebJobs.f.Disabled": "true"})) == []


TIMER = {"direction": "IN", "type": "timerTrigger", "name": "timer", "schedule": "0 * * * * *"}
QUEUE = {"direction": "IN", "type": "serviceBusTrigger", "name": "message", "queueName": "q"}
SENT = {"direction": "OUT", "type": "serviceBus", "name": "$return", "queueName": "q"}
ANSWER = {"direction": "OUT", "type": "http", "name": "$return"}
HTTP = {"direction": "IN", "type": "httpTrigger", "name": "req"}


@pytest.mark.parametrize(
    ("name", "bindings", "sentence"),
    [
        ("../f", [TIMER], "the function name '../f' is not allowed: a letter, then letters, digits, _ and -"),
        ("f", [HTTP, ANSWER, SENT], "function f has more than one binding with the name $return"),
        ("f", [TIMER, QUEUE], "function f must have one trigger, not 2: timer, message"),
        ("f", [{**TIMER, "schedule": ""}], "function f has a timerTrigger without schedule (timer)"),
        (
            "f",
            [{**QUEUE, "queueName": None}],
            "function f has a serviceBusTrigger without queueName (message)",
        ),
        ("f", [{**HTTP, "authLevel": "all"}], "function f: 'ALL' is not a valid AuthLevel"),
    ],
)
def test_mistake_of_an_app_is_named(name: str, bindings: list[dict[str, Any]], sentence: str) -> None:
    """What Azure refuses, too: generic bindings can have anything."""
    with pytest.raises(StartError) as raised:
        read_functions([Indexed(name, "1", bindings)], AppSettings({}))
    assert str(raised.value) == sentence


@pytest.mark.parametrize(("route", "used"), [(None, "f"), ("", "f"), ("/", ""), ("/a/", "a")])
def test_route_is_the_functions_name_unless_it_has_one(route: str | None, used: str) -> None:
    """As in Azure, where an empty one is none."""
    [found] = read_functions([Indexed("f", "1", [{**HTTP, "route": route}])], AppSettings({}))
    assert isinstance(found.trigger, HttpTrigger)
    assert found.trigger.route == used


def test_retry_of_an_unknown_strategy_is_refused() -> None:
    """With the name of the function."""
    function = Indexed("f", "1", [TIMER], Message(retry_strategy="sometimes", max_retry_count=1))
    with pytest.raises(StartError, match="function f: 'sometimes' is not a valid RetryStrategy"):
        read_functions([function], AppSettings({}))


def test_true_and_false_may_be_texts() -> None:
    """Generic bindings have them so."""
    timer = Indexed("t", "1", [{**TIMER, "runOnStartup": "false", "useMonitor": "False"}])
    queue = Indexed("q", "2", [{**QUEUE, "isSessionsEnabled": "false"}])
    [timed, queued] = read_functions([timer, queue], AppSettings({}))
    assert timed.trigger == TimerTrigger("timer", "0 * * * * *", run_on_startup=False, use_monitor=False)
    assert queued.trigger == ServiceBusTrigger("message", "AzureWebJobsServiceBus", "q", many=False)
    with pytest.raises(StartError, match="has sessions"):
        read_functions([Indexed("q", "2", [{**QUEUE, "isSessionsEnabled": "True"}])], AppSettings({}))


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
    """The app's output during its import goes to stderr; a thread of the app does not delay the exit."""
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
