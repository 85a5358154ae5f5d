"""The samples of Agents and the application's own Agent keep every rule."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from azure.data.tables import TableServiceClient

from functions.roles import AGENT_TABLES
from local.platform import ROOT
from tests.fakes.web_server import served
from tests.integration.azurite import running_azurite
from tests.local.agent_check.samples import (
    GIVES_UP_A_BUSY_LEDGER,
    PYTHON_SAMPLE,
    check,
    check_changed,
    go_sample,
    javascript_sample,
    keeps_every_rule,
    lock_the_ledger,
)


@dataclass(slots=True)
class PaymentService:
    """The effects by their keys; calls wait while a client reads `/hold`."""

    effects: Counter[str] = field(default_factory=Counter)
    undone: set[str] = field(default_factory=set)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    holders: int = 0

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[str]:
        """Serve until the block ends; yield the address."""
        service = cls()
        service.free.set()
        app = web.Application()
        app.router.add_put("/payments/{task}", service._pay)
        app.router.add_delete("/payments/{task}", service._pay_back)
        app.router.add_get("/effects", service._effects)
        app.router.add_get("/hold", service._hold)
        async with served(app) as url:
            yield url

    async def _pay(self, request: web.Request) -> web.Response:
        await self.free.wait()
        key = request.headers["Idempotency-Key"]
        if key in self.undone:
            return web.json_response({}, status=409)
        self.effects.setdefault(key, 1)
        return web.json_response({"reference": request.match_info["task"]})

    async def _pay_back(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        do = key.removesuffix("/undo") + "/do"
        self.undone.add(do)
        if do in self.effects:
            self.effects.setdefault(key, 1)
        return web.json_response({})

    async def _effects(self, _: web.Request) -> web.Response:
        return web.Response(text="".join(f"{key} {count}\n" for key, count in self.effects.items()))

    async def _hold(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.holders += 1  # whoever has gone is noticed with the next line only
        self.free.clear()
        try:
            while True:
                await response.write(b"held\n")
                await asyncio.sleep(0.1)
        finally:
            self.holders -= 1
            if not self.holders:
                self.free.set()


pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]


#: Its first completion finds the receiver as the client leaves it when a renewal meets a lost connection.
_CLOSED = """
import runpy, sys
from azure.servicebus import ServiceBusReceiver
complete, closed = ServiceBusReceiver.complete_message, []
def complete_message(receiver, message):
    if not closed:
        closed.append(receiver._close_handler())
    complete(receiver, message)
ServiceBusReceiver.complete_message = complete_message
runpy.run_path(sys.argv[1], run_name="__main__")
"""
_LOCK_FILE = (
    "import fcntl, time; file = open('payments.log', 'a'); fcntl.flock(file, fcntl.LOCK_EX);"
    " print('held', flush=True); time.sleep(600)"
)


def _check_every_rule(folder: Path, agent: str, hold: str) -> None:
    report = check(folder, f"exec {agent}", "--effects", f"{agent} effects", "--hold", hold)
    keeps_every_rule(report, GIVES_UP_A_BUSY_LEDGER)


def test_python_keeps_every_rule(tmp_path: Path) -> None:
    """It needs the client of Service Bus only."""
    _check_every_rule(tmp_path, f"{sys.executable} {PYTHON_SAMPLE}", lock_the_ledger(tmp_path))


@pytest.mark.night
def test_javascript_keeps_every_rule(tmp_path: Path) -> None:
    """With Microsoft's client, and a SQLite for Node."""
    _check_every_rule(tmp_path, " ".join(javascript_sample()), lock_the_ledger(tmp_path))


@pytest.mark.night
def test_go_keeps_every_rule(tmp_path: Path) -> None:
    """Its ledger is a file, whose lock holds it up. A first run downloads and compiles the client."""
    _check_every_rule(tmp_path, " ".join(go_sample(tmp_path)), f'exec {sys.executable} -c "{_LOCK_FILE}"')


def test_python_continues_when_it_can_not_settle(tmp_path: Path) -> None:
    """The client then raises no error of its own kind."""
    (tmp_path / "closed.py").write_text(_CLOSED)
    run = f"exec {sys.executable} closed.py {PYTHON_SAMPLE}"
    report = check(tmp_path, run, "--processes", "1", "--only", "the same request once more")
    assert report.checks("FAILED") == set(), report.text


_CHECK = "sent once work that ends late"
#: Seconds, longer than the kit holds it up: where its lock runs out meanwhile, the request ends with its
#: complete-by, and that looks as if the Agent gave up.
_LOCK = 15
#: It waits for its ledger longer than the kit ever holds that up: its work is under way all the time.
_WAITS = ("timeout=10", "timeout=300")
#: It tries again every other moment: complete-by finds it between two tries.
_GIVES_UP = ("timeout=10", "timeout=0")
_STAYS_SILENT = "            if is_late(request):\n                return None\n"
#: It settles when the kit holds nothing up any more.
_DAWDLES = (_STAYS_SILENT, _STAYS_SILENT.replace("return", "return time.sleep(10) or"))
#: It looks at the clock before it waits for its ledger, so that its work has begun.
_BEGINS = (
    "    if state is None:\n        if is_late(request):\n            return close_start(ledger, request)\n",
    "    if state is None:\n",
)
_SILENT = ('    if is_late(request) and request["idempotent"] and', "    if is_late(request) and")


@pytest.mark.night
def test_work_that_ends_late_is_reported(tmp_path: Path) -> None:
    """The check is passed; it fails for an Agent that did the work and sends no reply."""
    report = check_changed([_WAITS, _BEGINS], [_CHECK], tmp_path, processes=1, lock=_LOCK)
    assert _CHECK in report.checks("passed"), report.text
    assert report.code == 0, report.text
    silent = tmp_path / "silent"
    silent.mkdir()
    report = check_changed([_WAITS, _BEGINS, _SILENT], [_CHECK], silent, processes=1, lock=_LOCK)
    assert "no reply" in report.reasons().get(_CHECK, "not found"), report.text
    assert report.code == 1


@pytest.mark.night
@pytest.mark.parametrize("changes", [[_GIVES_UP], [_GIVES_UP, _DAWDLES]], ids=["at once", "later"])
def test_agent_that_times_out_may_send_no_reply(changes: list[tuple[str, str]], tmp_path: Path) -> None:
    """Nothing was done: the check is not seen."""
    report = check_changed(changes, [_CHECK], tmp_path, processes=1)
    assert report.checks("not seen") == {_CHECK}, report.text
    assert report.code == 0, report.text


@pytest.mark.night
async def test_our_own_agent_keeps_every_rule(tmp_path: Path) -> None:
    """Service Bus dead-letters a message that it can't read: a Python trigger can't.

    Its call of a service times out at complete-by.
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
    assert report.checks("not seen") == {
        "sent once work that ends late",
        "a look up of what was done",
        "a fence holds",
    }, report.text
    assert report.code == 0
