"""The Agent `payment`, in Python: takes the money once for each key, and gives it back.

Run it with `python payment_agent.py`; `python payment_agent.py effects` prints what it did.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from azure.servicebus import AutoLockRenewer, ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

ECHOED = ("schema_version", "task_id", "step", "epoch", "token")
LONGEST = 1e9  # seconds
KINDS = {"schema_version": int, "epoch": int, "idempotent": bool, "request": dict} | dict.fromkeys(
    ("task_id", "step", "token", "direction", "effect_key", "complete_by"), str
)
TABLES = """
CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS movements (effect_key TEXT NOT NULL, amount TEXT NOT NULL);
"""


class Refused(Exception):
    """Permanently: a retry would get the same answer."""


class NotTaken(Exception):
    """It waited so long that too little time is left, and nothing of it was begun."""


def open_ledger():
    """Open the ledger. Each key has one row, and what moves the money is written with it, or not at all."""
    return sqlite3.connect("payments.db", timeout=10, isolation_level=None)


@contextmanager
def transaction(ledger):
    """Keep other processes out, and write all of the block or nothing."""
    ledger.execute("BEGIN IMMEDIATE")
    with ledger:  # commits at its end, and rolls back when it fails
        yield


def state_of(ledger, request):
    """Give the state of the payment: do and undo meet in one row, without the direction in its key."""
    key = request["effect_key"].rpartition("/")[0]
    found = ledger.execute("SELECT state FROM payments WHERE key = ?", (key,)).fetchone()
    return key, found and found[0]


def pay(ledger, request):
    """Take the money, once."""
    amount = request["request"].get("amount")
    if request["request"].get("currency") != "EUR" or not isinstance(amount, str):
        raise Refused("we take an amount in euros")
    with transaction(ledger):
        key, state = state_of(ledger, request)
        if state == "undone":
            raise Refused("it was undone before it was done")
        if state is None:
            see_that_there_is_time(request)
            ledger.execute("INSERT INTO payments VALUES (?, 'paid')", (key,))
            move(ledger, request, amount)
    return {"reference": key}


def pay_back(ledger, request):
    """Give back what was paid, once; what was never paid is remembered as undone."""
    with transaction(ledger):
        key, state = state_of(ledger, request)
        if state != "undone":
            see_that_there_is_time(request)
        ledger.execute("INSERT OR REPLACE INTO payments VALUES (?, 'undone')", (key,))
        if state == "paid":
            sought = "SELECT amount FROM movements WHERE effect_key = ?"
            move(ledger, request, *ledger.execute(sought, (key + "/do",)).fetchone())
    return {}


def see_that_there_is_time(request):
    """Raise `NotTaken` where less is left than the step's time; whoever asks keeps all others out."""
    within = request.get("complete_within")
    if within is not None and request["complete_by"] - datetime.now(UTC) < timedelta(seconds=within):
        raise NotTaken


def move(ledger, request, amount):
    """Stands for what the bank does."""
    ledger.execute("INSERT INTO movements VALUES (?, ?)", (request["effect_key"], amount))


CARRY_OUT = {"do": pay, "undo": pay_back}


def read(message):
    """Read a request. Raises `ValueError`, which says what is wrong."""
    try:
        request = json.loads(b"".join(message.body))
        json.dumps(request, ensure_ascii=False).encode()  # fails for half a character
        request = {} | request  # fails for a list or a text
    except (TypeError, RecursionError) as fault:
        raise ValueError(f"it is not an object in JSON: {fault}") from None
    for name, kind in KINDS.items():
        if type(request.get(name)) is not kind:
            raise ValueError(f"{name} is not of type {kind.__name__}")
    direction, complete_by = request["direction"], datetime.fromisoformat(request["complete_by"])
    within = request.get("complete_within")
    rules = {
        "schema_version": request["schema_version"] == 1,
        "direction": direction in CARRY_OUT,
        "effect_key": request["effect_key"].endswith(f"/{direction}"),
        "complete_by": complete_by.tzinfo is not None,
        "complete_within": within is None or (type(within) in (int, float) and 0 < within < LONGEST),
    }
    for name, kept in rules.items():
        if not kept:
            raise ValueError(f"{name} is another")
    return request | {"complete_by": complete_by}


def answer(ledger, request):
    """Give the reply to a request, or None to stay silent."""
    give_up_at = datetime.now(UTC) + timedelta(seconds=request.get("complete_within") or LONGEST)
    while True:
        try:
            return attempt(ledger, request)
        except sqlite3.OperationalError:  # busy for longer than the timeout: a transient fault
            if is_late(request) or datetime.now(UTC) >= give_up_at:
                return None
            time.sleep(1)


def attempt(ledger, request):
    """Answer once. Raises `sqlite3.OperationalError` when the ledger can't be used."""
    once = not request["idempotent"]
    if is_late(request) and not (once and state_of(ledger, request)[1]):
        return None
    try:
        outcome = {"outcome": "completed", "result": CARRY_OUT[request["direction"]](ledger, request)}
    except Refused as refusal:
        outcome = {"outcome": "failed", "error": str(refusal)[:1000]}
    except NotTaken:
        outcome = {"outcome": "not_taken"}
    if is_late(request) and not once:
        return None
    return {name: request[name] for name in ECHOED} | outcome


def is_late(request):
    """Whether nothing may be begun any more."""
    return datetime.now(UTC) >= request["complete_by"]


def serve(ledger):
    """Take requests one by one, until the connection is lost; run more processes to do more at once."""
    with (
        ServiceBusClient.from_connection_string(os.environ["ServiceBusConnection"]) as bus,
        AutoLockRenewer() as renewer,
        bus.get_queue_receiver("agent-payment-requests", auto_lock_renewer=renewer) as requests,
        bus.get_queue_sender("agent-replies") as replies,
    ):
        for message in requests:
            try:
                request = read(message)
            except ValueError as fault:
                why = str(fault)[:1000]
                requests.dead_letter_message(message, reason="not a request", error_description=why)
                continue
            reply = answer(ledger, request)
            if reply is not None:
                replies.send_messages(ServiceBusMessage(json.dumps(reply)))
            requests.complete_message(message)


def main():
    """Serve for ever, or print each effect key with its count."""
    ledger = open_ledger()
    if sys.argv[1:] == ["effects"]:
        ledger.executescript(TABLES)
        for row in ledger.execute("SELECT effect_key, count(*) FROM movements GROUP BY effect_key"):
            print(*row)
        return
    while True:
        try:
            ledger.executescript(TABLES)
            serve(ledger)
        except (ServiceBusError, sqlite3.OperationalError, ValueError) as fault:
            # ValueError: what lost its connection can't settle
            print(f"beginning again: {fault}", file=sys.stderr)
            time.sleep(1)


if __name__ == "__main__":
    main()
