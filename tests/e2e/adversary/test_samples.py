"""Samples of Agents, asked what is no request: rule 6, and neighbours are served."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from local.platform import ROOT
from servicebus_local.config import read_config
from servicebus_local.testing import running_broker
from tests.contract.schemas import examples
from tests.local.agent_check.samples import PYTHON_SAMPLE, SAMPLES

pytestmark = [pytest.mark.process, pytest.mark.timeout(200)]

QUEUE = "agent-payment-requests"
#: Each breaks the schema of requests in one field.
NO_REQUESTS: dict[str, dict[str, Any]] = {
    "request is a list": {"request": []},
    "request is null": {"request": None},
    "effect key is a number": {"effect_key": 7},
    "complete-by without a zone": {"complete_by": "2036-11-21T12:01:00"},
    "complete-by is a number": {"complete_by": 7},
    "direction is a list": {"direction": []},
    # It is a request, but not one of a payment: to be refused, or left to the dead letters.
    "no amount": {"request": {"currency": "EUR"}},
    "amount is an object": {"request": {"currency": "EUR", "amount": {"a": 1}}},
}
COMMANDS = {"python": [sys.executable, str(PYTHON_SAMPLE)]}
if shutil.which("node"):
    COMMANDS["javascript"] = ["node", str(SAMPLES / "javascript" / "payment_agent.mjs")]


@pytest.mark.parametrize("language", COMMANDS)
@pytest.mark.parametrize("name", NO_REQUESTS)
def test_sample_lives_on(name: str, language: str, tmp_path: Path) -> None:
    """What it can't carry out is dead-lettered or refused, and the next request is answered."""
    right = examples()[0][0] | {"complete_by": (datetime.now(UTC) + timedelta(seconds=120)).isoformat()}
    wrong = right | {"task_id": "wrong"} | NO_REQUESTS[name]
    with running_broker(read_config(ROOT / "infra" / "queues.json")) as broker:
        with ServiceBusClient.from_connection_string(broker.connection_string) as client:
            with client.get_queue_sender(QUEUE) as sender:
                sender.send_messages(ServiceBusMessage(json.dumps(wrong), message_id="wrong"))
                sender.send_messages(ServiceBusMessage(json.dumps(right), message_id="right"))
            with (tmp_path / "log").open("w") as log:
                agent = subprocess.Popen(
                    COMMANDS[language],
                    cwd=tmp_path,
                    env={"ServiceBusConnection": broker.connection_string, "PATH": "/usr/bin:/bin:/usr/local/bin"},
                    stdout=log,
                    stderr=log,
                )
            try:
                heard = list(_heard(client, agent))
            finally:
                agent.kill()
                agent.wait()
            with client.get_queue_receiver(QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
                died = [each.message_id for each in dead.peek_messages(10)]
    print((tmp_path / "log").read_text()[-1500:], died, heard)
    assert agent.returncode == -9, "the Agent ended by itself"
    assert "my-first-order" in [each.get("task_id") for each in heard]
    assert died == ["wrong"] or [each["outcome"] for each in heard if each["task_id"] == "wrong"] == ["failed"]


def _heard(client: ServiceBusClient, agent: subprocess.Popen[Any]) -> Iterator[dict[str, Any]]:
    until = time.monotonic() + 12
    with client.get_queue_receiver("agent-replies") as receiver:
        while time.monotonic() < until and agent.poll() is None:
            for message in receiver.receive_messages(10, max_wait_time=1):
                receiver.complete_message(message)
                reply = json.loads(str(message))
                yield reply
                if reply["task_id"] == "my-first-order":
                    until = min(until, time.monotonic() + 1)
