"""`python -m local run`: one order and its progress, live."""

from __future__ import annotations

import json
import sys
import uuid
from contextlib import nullcontext
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from local.callers.client import SAMPLE_ORDER, OrderClient, OrderState, OrderStatus

#: Seconds after which one order on an idle machine counts as failed.
_FINISHED_WITHIN = 60.0


async def show_one_order(url: str, console: Console) -> OrderStatus:
    """Submit the sample order to the application at `url`, and show its progress until its end."""
    order_id = f"sample-{uuid.uuid4().hex[:12]}"
    async with OrderClient.at(url) as client:
        await client.submit(order_id)
        console.print(f"Submitted: PUT {url}/api/orders/{order_id}", highlight=False, soft_wrap=True)
        order = None
        table = Live(console=console, redirect_stderr=sys.stderr.isatty(), auto_refresh=False)
        with table if console.is_terminal else nullcontext() as live:
            async for order in client.follow(order_id, _FINISHED_WITHIN):
                if live is not None:
                    live.update(_table(order), refresh=True)
                else:
                    steps = ", ".join(f"{step.name} {step.state}" for step in order.steps)
                    console.print(f"{order.state:<11} {steps}", highlight=False, soft_wrap=True)
    assert order  # noqa: S101 - `follow` ends only with a finished order, or with an error
    took = f" after {order.seconds:.2f} s" if order.seconds is not None else ""
    why = f": {order.last_error}" if order.last_error else ""
    colour = "green" if order.state is OrderState.PROCESSED else "red"
    console.print(f"[{colour}]{order.state}[/]{took}{why}", highlight=False)
    return order


def next_command(url: str) -> str:
    """Return a shell command that submits an order."""
    return f"curl -i {url}/api/orders -H 'Content-Type: application/json' -d '{json.dumps(SAMPLE_ORDER)}'"


def _table(order: OrderStatus) -> Table:
    table = Table("step", "state", "started", "finished", title=f"order {order.id}: {order.state}")
    for step in order.steps:
        table.add_row(step.name, step.state, _clock(step.started_at), _clock(step.finished_at))
    return table


def _clock(moment: datetime | None) -> str:
    return f"{moment:%H:%M:%S.%f}"[:-3] if moment else ""
