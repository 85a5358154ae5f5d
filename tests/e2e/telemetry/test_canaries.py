"""No log line, span, metric or exported record contains secrets of callers, services or settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from tests.e2e.caller import ORDER
from tests.e2e.deliveries import APP, DELIVERY, SETTINGS, STEPS, DeliveryServices, addresses, asking
from tests.e2e.recovery.bench import Bench, bench_with, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.telemetry.conftest import EXPORT_SETTINGS
from tests.e2e.telemetry.receiver import Receiver

pytestmark = pytest.mark.process

#: The prefix of each secret; the rest says where it was planted.
_CANARY = "c4n4ry"
_HEADERS = {
    "x-functions-key": f"{_CANARY}-function-key",
    "Authorization": f"Bearer {_CANARY}-token",
    "Cookie": f"session={_CANARY}-cookie",
    "X-Requested-With": f"{_CANARY}-requested-with",
    "tracestate": f"vendor={_CANARY}-tracestate",
}
_QUERY = {"code": f"{_CANARY}-code"}
_ITEM = {"sku": f"{_CANARY}-sku", "quantity": 2, "unit_price": "4.90"}
_DELIVERY = {
    **DELIVERY,
    "account": f"{_CANARY}-account",
    "package": {**DELIVERY["package"], "tag": f"{_CANARY}-tag"},
}
_SECRETS = {
    **{f"{step.upper()}_KEY": f"{_CANARY}-{step}-key" for step in STEPS},
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={_CANARY}-collector",
}


class _Services(DeliveryServices):
    """Puts secrets into its confirmations, and once returns something that is no confirmation."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []

    @property
    def alerted(self) -> bool:
        """Return whether this alert has arrived before."""
        return sum(request.startswith(f"/{_CANARY}-address/alerts") for request in self.requests) > 1

    def shown(self, step: str, task: str) -> Mapping[str, Any] | None:
        """Return values that no log may contain."""
        shown = super().shown(step, task)
        if shown is None or step != "package":
            return shown
        number = {_CANARY: f"{_CANARY}-confirmation"} if task == "confused" else f"{_CANARY}-number"
        return {"tracking_number": number}

    async def _step(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.path_qs} {dict(request.headers)} {await request.text()}")
        if request.method == "POST":  # the webhook, with its secret address
            return web.Response(status=200 if self.alerted else 503)
        return await super()._step(request)


@asynccontextmanager
async def _running(data: Path, receiver: Receiver) -> AsyncIterator[tuple[Bench, _Services]]:
    """Run the product with secrets in its settings, and in the address of services and webhook."""
    async with _Services().serving() as services:
        assert isinstance(services, _Services)
        services.url += f"/{_CANARY}-address"
        exporting = {**EXPORT_SETTINGS, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        settings = {**SETTINGS, **addresses(services.url), **exporting, **_SECRETS}
        async with bench_with(services, data, settings, app=APP) as bench:
            yield bench, services


async def test_secrets_are_in_no_log_and_no_telemetry(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a whole run: orders, deliveries, refusals, faults, recoveries, operators, and invalid messages."""
    async with Receiver().serving() as receiver, _running(tmp_path, receiver) as (bench, services):
        bench.session.headers.update(_HEADERS)
        await asyncio.gather(_good(bench), _troubled(bench), _refused(bench), _invalid(bench))
        await until(lambda: services.alerted)
    captured = capfd.readouterr()
    assert [line for line in (captured.out + captured.err).splitlines() if _CANARY in line.lower()] == []
    assert [body for body in receiver.raw if _CANARY.encode() in body.lower()] == []
    received = "".join(services.requests)
    assert all(f"{_CANARY}-{planted}" in received for planted in ("tag", "drone-key", "address", "account"))
    assert {"submit", "run_agents", "resubmit"} <= {span.name for span in receiver.spans}
    texts = [record.text for record in receiver.records]
    for begun in ("operator alert ", "message invalid rejected", "drone answered 503"):
        assert any(text.startswith(begun) for text in texts), begun


async def _good(bench: Bench) -> None:
    """Submit orders, a batch and a delivery that succeed."""
    order = {
        **ORDER,
        "customer": f"{_CANARY}-customer",
        "items": [_ITEM],
        "correlation_id": f"{_CANARY}-correlation",
    }
    await _put(bench, "orders", "good", order)
    batch = {"orders": [{**order, "id": "batched"}, {**order, "currency": f"{_CANARY}-currency"}]}
    async with bench.session.post("/api/orders/batch", json=batch, params=_QUERY) as answer:
        assert answer.status == 200
    await _put(bench, "deliveries", "easy", _DELIVERY)
    for task in ("good", "batched", "easy"):
        await bench.until_state(task, "Processed")


async def _troubled(bench: Bench) -> None:
    """Submit deliveries that meet faults, are recovered, undone, and resubmitted by an operator."""
    scripts = {
        asking("down", "drone"): (Behaviour.IS_DOWN, Behaviour.BREAKS_OFF, Behaviour.ANSWERS),
        asking("hanging", "drone"): (Behaviour.HANGS, Behaviour.ANSWERS),
        asking("refusing", "drone"): (Behaviour.REFUSES,),
        asking("stuck", "drone"): (Behaviour.REFUSES,),
        "stuck/package/undo": (Behaviour.REFUSES, Behaviour.ANSWERS),
    }
    for effect, behaviours in scripts.items():
        bench.remote.script(effect, *behaviours)
    ends = {
        "down": "Processed",
        "hanging": "Processed",
        "refusing": "Compensated",
        "confused": "Error",
        "stuck": "Error",
    }
    await asyncio.gather(*(_put(bench, "deliveries", task, _DELIVERY) for task in ends))
    for task, end in ends.items():
        await bench.until_state(task, end)
    assert await bench.act("stuck", "resubmit") == 202
    await bench.until_state("stuck", "Compensated")


async def _refused(bench: Bench) -> None:
    """Send what is refused: fields, bodies and paths with secrets."""
    wrong = [
        {**ORDER, "currency": f"{_CANARY}-currency"},
        {**ORDER, f"{_CANARY}-field": 1},
        {**ORDER, "items": [{**_ITEM, "quantity": f"{_CANARY}-quantity"}]},
    ]
    for body in wrong:
        async with bench.session.put("/api/orders/refused", json=body, params=_QUERY) as answer:
            assert answer.status == 422
    async with bench.session.put("/api/orders/refused", data=f'{{"{_CANARY}-broken') as answer:
        assert 400 <= answer.status < 500
    async with bench.session.get(f"/api/{_CANARY}-nowhere") as answer:
        assert answer.status == 404


async def _invalid(bench: Bench) -> None:
    """Send messages to the queues that no part of the application would send."""
    content = {"task_id": "invalid", "workflow": f"{_CANARY}-workflow", "payload": {_CANARY: _CANARY}}
    properties: dict[str | bytes, Any] = {"traceparent": f"{_CANARY}-trace"}
    connection = bench.settings["ServiceBusConnection"]
    async with ServiceBusClient.from_connection_string(connection) as client:
        for queue in ("submissions", "agent-payment-requests", "agent-replies", "scheduler-requests"):
            message = ServiceBusMessage(
                json.dumps(content), application_properties=properties, message_id="invalid"
            )
            async with client.get_queue_sender(queue) as sender:
                await sender.send_messages(message)
            await bench.until_empty(queue)


async def _put(bench: Bench, resource: str, task: str, content: Mapping[str, Any]) -> None:
    async with bench.session.put(f"/api/{resource}/{task}", json=content, params=_QUERY) as answer:
        assert answer.status == 202, await answer.text()
