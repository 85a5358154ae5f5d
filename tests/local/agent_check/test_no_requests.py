"""The samples, asked what is no request: it is left to the dead letters with the reason, and they live on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from local.platform import ROOT
from servicebus_local.config import read_config
from servicebus_local.testing import running_broker
from tests.contract.schemas import examples
from tests.local.agent_check.samples import PYTHON_SAMPLE, go_sample, javascript_sample

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]

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
