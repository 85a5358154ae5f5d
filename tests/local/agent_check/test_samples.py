"""The samples of Agents and the application's own Agent keep every rule."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from functions.roles import AGENT_TABLES
from local.platform import ROOT
from servicebus_local.config import read_config
from servicebus_local.testing import running_broker
from tests.contract.schemas import examples
from tests.integration.azurite import running_azurite
from tests.local.agent_check.payment_service import PaymentService
from tests.local.agent_check.planted import check_changed
from tests.local.agent_check.samples import (
    GIVES_UP_A_BUSY_LEDGER,
    PYTHON_SAMPLE,
    check,
    go_sample,
    javascript_sample,
    keeps_every_rule,
    lock_the_ledger,
)

# The client is downloaded and compiled when it runs for the first time.
pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


def test_go_keeps_every_rule(tmp_path: Path) -> None:
    """Its ledger is a file, whose lock holds it up."""
    agent = " ".join(go_sample(tmp_path))
    hold = f'exec {sys.executable} -c "{_LOCK_FILE}"'
    keeps_every_rule(check(tmp_path, f"exec {agent}", "--effects", f"{agent} effects", "--hold", hold))


_LOCK_FILE = (
    "import fcntl, time; file = open('payments.log', 'a'); fcntl.flock(file, fcntl.LOCK_EX);"
    " print('held', flush=True); time.sleep(600)"
)


def test_javascript_keeps_every_rule(tmp_path: Path) -> None:
    """With Microsoft's client, and a SQLite for Node."""
    sample = " ".join(javascript_sample())
    options = ("--effects", f"{sample} effects", "--hold", lock_the_ledger(tmp_path))
    keeps_every_rule(check(tmp_path, f"exec {sample}", *options), GIVES_UP_A_BUSY_LEDGER)


_CHECK = "sent once work that ends late"
#: Seconds, longer than the kit holds it up: where its lock runs out meanwhile, the request ends with its
#: complete-by, and that looks as if the Agent gave up.
_LOCK = 15
#: It waits for its ledger longer than the kit ever holds that up: its work is under way all the time.
_WAITS = ("timeout=10", "timeout=300")
#: It tries again every other moment: complete-by finds it between two tries.
_GIVES_UP = ("timeout=10", "timeout=0")
_STAYS_SILENT = (
    "            if is_late(request) or datetime.now(UTC) >= give_up_at:\n                return None\n"
)
#: It settles when the kit holds nothing up any more.
_DAWDLES = (_STAYS_SILENT, _STAYS_SILENT.replace("return", "return time.sleep(10) or"))
_SILENT = (
    "    if is_late(request) and not once:\n        return None\n",
    "    if is_late(request):\n        return None\n",
)


def test_work_that_ends_late_is_told(tmp_path: Path) -> None:
    """The check is passed."""
    report = check_changed([_WAITS], [_CHECK], tmp_path, processes=1, lock=_LOCK)
    assert _CHECK in report.checks("passed"), report.text
    assert report.code == 0, report.text


def test_silence_about_late_work_is_found(tmp_path: Path) -> None:
    """It was done, and nobody hears of it."""
    report = check_changed([_WAITS, _SILENT], [_CHECK], tmp_path, processes=1, lock=_LOCK)
    assert "no reply" in report.reasons().get(_CHECK, "not found"), report.text
    assert report.code == 1


@pytest.mark.parametrize("changes", [[_GIVES_UP], [_GIVES_UP, _DAWDLES]], ids=["at once", "later"])
def test_whoever_gives_up_is_rightly_silent(changes: list[tuple[str, str]], tmp_path: Path) -> None:
    """Nothing was done: the check is not seen."""
    report = check_changed(changes, [_CHECK], tmp_path, processes=1)
    assert report.checks("not seen") == {_CHECK}, report.text
    assert report.code == 0, report.text


_QUEUE = "agent-payment-requests"
#: Each is no request in the field that the reason must name.
_NO_REQUESTS: dict[str, tuple[str, Any]] = {
    "a list to do": ("request", []),
    "nothing to do": ("request", None),
    "a key that is a number": ("effect_key", 7),
    "a key without a direction": ("effect_key", "payment"),
    "a time without a zone": ("complete_by", "2036-11-21T12:01:00"),
    "a time that is a number": ("complete_by", 7),
    "a list of directions": ("direction", ["do"]),
    "an epoch in words": ("epoch", "1"),
    "no token": ("token", None),
    "a text where a boolean stands": ("idempotent", "false"),
}
#: These are requests, but none of a payment.
_REFUSED = {
    "no amount": {"currency": "EUR"},
    "an amount that is an object": {"currency": "EUR", "amount": {"a": 1}},
}


def _python(_: Path) -> list[str]:
    return [sys.executable, str(PYTHON_SAMPLE)]


def _javascript(_: Path) -> list[str]:
    return javascript_sample()


@pytest.mark.parametrize("command", [_python, _javascript, go_sample], ids=["python", "javascript", "go"])
def test_sample_lives_on(command: Callable[[Path], list[str]], tmp_path: Path) -> None:
    """Each is dead-lettered with the field that is wrong, or refused; then the next request is answered."""
    right = examples()[0][0] | {"complete_by": (datetime.now(UTC) + timedelta(seconds=300)).isoformat()}
    wrong = {task: right | {"task_id": task, name: value} for task, (name, value) in _NO_REQUESTS.items()}
    refused = {
        task: right | {"task_id": task, "effect_key": f"t-{number}.3f9a0c27/payment/do", "request": asked}
        for number, (task, asked) in enumerate(_REFUSED.items())
    }
    with (
        running_broker(read_config(ROOT / "infra" / "queues.json")) as broker,
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
    ):
        with client.get_queue_sender(_QUEUE) as sender:
            for task, asked in (wrong | refused | {"right": right | {"task_id": "right"}}).items():
                sender.send_messages(ServiceBusMessage(json.dumps(asked), message_id=task))
        environment = {**os.environ, "ServiceBusConnection": broker.connection_string}
        agent = subprocess.Popen(command(tmp_path), cwd=tmp_path, env=environment)
        try:
            outcomes = _outcomes(client, len(refused) + 1)
        finally:
            ended = agent.poll()
            agent.kill()
            agent.wait()
        with client.get_queue_receiver(_QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            reasons = {each.message_id: each.dead_letter_error_description for each in dead.peek_messages(50)}
    assert ended is None, "the Agent ended by itself"
    assert outcomes == dict.fromkeys(_REFUSED, "failed") | {"right": "completed"}
    assert reasons.keys() == wrong.keys()
    assert [task for task, (name, _) in _NO_REQUESTS.items() if name not in (reasons[task] or "")] == []


def _outcomes(client: ServiceBusClient, count: int) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    with client.get_queue_receiver("agent-replies") as receiver:
        while len(outcomes) < count and (messages := receiver.receive_messages(10, max_wait_time=60)):
            for message in messages:
                receiver.complete_message(message)
                reply = json.loads(str(message))
                outcomes[reply["task_id"]] = reply["outcome"]
    return outcomes


async def test_our_own_agent_keeps_every_rule(tmp_path: Path) -> None:
    """Service Bus dead-letters a message that it can't read: a Python trigger can't.

    It gives up waiting for a service at complete-by.
    """
    async with running_azurite(tmp_path / "azurite") as storage, PaymentService.running() as service:
        sample = json.loads((ROOT / "local.settings.sample.json").read_text(encoding="utf-8"))["Values"]
        settings = sample | {
            "ROLES": "agents",
            "AzureWebJobsStorage": storage,
            "AgentStore": storage,
            "PAYMENT_URL": f"{service}/payments",
        }
        del settings["ServiceBusConnection"], settings["StateStore"]
        with TableServiceClient.from_connection_string(storage) as tables:
            for name in AGENT_TABLES:
                tables.create_table(name)
        shell = " ".join(f"'{name}={value}'" for name, value in settings.items())
        host = f"{sys.executable} -m functions_local --app {ROOT} --port 0 --data {tmp_path}/$$"
        options = (
            *("--effects", f"curl -sf {service}/effects", "--hold", f"exec curl -sN {service}/hold"),
            *("--processes", "1", "--abandons-unreadable"),
        )
        report = await asyncio.to_thread(check, tmp_path, f"exec env {shell} {host}", *options)
    assert report.checks("FAILED") == set(), report.text
    assert report.checks("not seen") == {"sent once work that ends late"}, report.text
    assert report.code == 0
