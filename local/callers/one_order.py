"""`python -m local run`: one order and its progress, live."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import nullcontext
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from local.callers.cases import Case, Submission, example_orders
from local.callers.client import OrderClient, OrderState, OrderStatus

#: Seconds after which one order on an idle machine counts as failed.
_FINISHED_WITHIN = 60.0


async def show_one_order(url: str, console: Console) -> OrderStatus:
    """Submit the example order to the application at `url`, and show its progress until its end."""
    submission, resource = Submission.new("sample", Case.ORDER), Case.ORDER.resource
    async with OrderClient.at(url) as client:
        await client.submit(resource, submission.id, submission.body())
        console.print(f"Submitted: PUT {url}/api/{resource}/{submission.id}", highlight=False, soft_wrap=True)
        order = None
        table = Live(console=console, redirect_stderr=sys.stderr.isatty(), auto_refresh=False)
        with table if console.is_terminal else nullcontext() as live:
            async for order in client.follow(submission.id, _FINISHED_WITHIN, resource):
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
    address, body = f"{url}/api/{Case.ORDER.resource}", json.dumps(example_orders()[0])
    return f"curl -i {address} -H 'Content-Type: application/json' -d {shlex.quote(body)}"


def _table(order: OrderStatus) -> Table:
    table = Table("step", "state", "started", "finished", title=f"order {order.id}: {order.state}")
    for step in order.steps:
        table.add_row(step.name, step.state, _clock(step.started_at), _clock(step.finished_at))
    return table


def _clock(moment: datetime | None) -> str:
    return f"{moment:%H:%M:%S.%f}"[:-3] if moment else ""
