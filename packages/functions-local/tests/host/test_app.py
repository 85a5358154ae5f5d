"""What the host reads from the app: bindings that it does not support, and the queues that bindings name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions_local.app import Function, ServiceBusOutput, ServiceBusTrigger, read_functions
from functions_local.configuration import AppSettings, StartError
from functions_local.queues import queue_configuration
from tests.host.processes import APP, print_queues

HTTP = {"direction": "IN", "type": "httpTrigger", "name": "req"}
QUEUE = {"direction": "IN", "type": "serviceBusTrigger", "name": "m", "connection": "Bus", "queueName": "q"}
TOPIC = {"direction": "IN", "type": "serviceBusTrigger", "name": "m", "connection": "Bus", "topicName": "t"}


def read(*bindings: dict[str, Any], **settings: str) -> list[Function]:
    """Read an app with one function, `f`, that has these bindings."""
    raw = [json.dumps(binding) for binding in bindings]
    metadata = SimpleNamespace(name="f", function_id="1", raw_bindings=raw, retry_options=None)
    return read_functions([metadata], AppSettings(settings))


@pytest.mark.parametrize(
    ("bindings", "what"),
    [
        ([{"type": "queueTrigger", "name": "m"}], "the binding queueTrigger"),
        ([{"type": "entityTrigger", "name": "context"}], "the binding entityTrigger"),
        ([HTTP, {"direction": "IN", "type": "blob", "name": "b"}], "the binding blob"),
        ([HTTP, {"direction": "OUT", "type": "queue", "name": "o"}], "the binding queue"),
        ([TOPIC], "a Service Bus topic trigger"),
        ([{**QUEUE, "isSessionsEnabled": True}], "a Service Bus trigger with sessions"),
        ([HTTP, {**TOPIC, "direction": "OUT", "type": "serviceBus"}], "a Service Bus topic output"),
    ],
)
def test_binding_that_is_not_supported_is_refused_with_a_way_out(
    bindings: list[dict[str, Any]], what: str
) -> None:
    """Better than an app that silently does half of its work; a disabled function may have it."""
    with pytest.raises(StartError) as refused:
        read(*bindings)
    assert str(refused.value) == (
        f"function f has {what}, which the local host does not support; "
        "set AzureWebJobs.f.Disabled=true to start without it"
    )
    assert read(*bindings, **{"AzureWebJobs.f.Disabled": "true"}) == []


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
