"""The Agent `payment` in Python: it takes the money once for each effect key, and pays it back.

Start: `python payment_agent.py`. `python payment_agent.py effects` prints the number of each effect.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime

from azure.servicebus import AutoLockRenewer, ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

ECHOED = ("schema_version", "task_id", "step", "direction", "epoch", "start_id", "kind")
TYPES = {"schema_version": int, "epoch": int, "idempotent": bool, "request": dict} | dict.fromkeys(
    ("task_id", "step", "direction", "start_id", "kind", "effect_key", "complete_by"), str
)
TABLES = """
CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, state TEXT NOT NULL, amount TEXT);
CREATE TABLE IF NOT EXISTS movements (effect_key TEXT NOT NULL, amount TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS closed_starts (start_id TEXT PRIMARY KEY);
"""


def open_ledger():
    """Open the ledger. A payment has one row, which is written in one transaction with its movement."""
    return sqlite3.connect("payments.db", timeout=10, isolation_level=None)


@contextmanager
def transaction(ledger):
    """Exclude other processes, and write all of the block or nothing."""
    ledger.execute("BEGIN IMMEDIATE")
    with ledger:  # commits at its end, and rolls back after an error
        yield


def key_of(request):
    """Return the key of a payment, which do and undo share: the effect key without the direction."""
    return request["effect_key"].rpartition("/")[0]


def payment(ledger, request):
    """Return the state and the amount of the payment."""
    query = "SELECT state, amount FROM payments WHERE key = ?"
    return ledger.execute(query, (key_of(request),)).fetchone() or (None, None)


def pay(ledger, request):
    """Take the money once."""
    amount = request["request"].get("amount")
    if request["request"].get("currency") != "EUR" or not isinstance(amount, str):
        return refused("the amount must be in euros")
    state, _ = payment(ledger, request)
    if state == "undone":
        return refused("the payment was undone")
    if state is None:
        if is_late(request):
            return close_start(ledger, request)
        save(ledger, request, "paid", amount)
        move(ledger, request, amount)
    return done(request)


def pay_back(ledger, request):
    """Return a payment once. A payment that was never done is recorded as undone."""
    state, amount = payment(ledger, request)
    if state != "undone":
        if is_late(request):
            return close_start(ledger, request)
        save(ledger, request, "undone", None)
        if state == "paid":
            move(ledger, request, amount)
    return done(request)


def find(ledger, request):
    """Look up a payment. If it was not done, this start never does it later."""
    state, _ = payment(ledger, request)
    if state == "undone":
        return {"outcome": "unknown", "error": "the payment was undone"}
    if state is None:
        close_start(ledger, request)
        return {"outcome": "not_done", "fences_starts": True}
    return done(request)


def save(ledger, request, state, amount):
    """Write the row of a payment."""
    ledger.execute("INSERT OR REPLACE INTO payments VALUES (?, ?, ?)", (key_of(request), state, amount))


def move(ledger, request, amount):
    """Move the money: a real Agent calls a bank here."""
    ledger.execute("INSERT INTO movements VALUES (?, ?)", (request["effect_key"], amount))


def close_start(ledger, request):
    """Record that this start never begins; return the outcome."""
    ledger.execute("INSERT OR IGNORE INTO closed_starts VALUES (?)", (request["start_id"],))
    return {"outcome": "not_taken"}


def is_closed(ledger, request):
    """Return whether this start never begins."""
    query = "SELECT 1 FROM closed_starts WHERE start_id = ?"
    return ledger.execute(query, (request["start_id"],)).fetchone() is not None


def done(request):
    """Return the outcome of a payment that is done or undone."""
    return {"outcome": "done", "result": {"reference": key_of(request)}}


def refused(error):
    """Return a permanent refusal."""
    return {"outcome": "refused", "error": error}


WORK = {("carry out", "do"): pay, ("carry out", "undo"): pay_back, ("find", "do"): find}


def read(message):
    """Return the request in a message. Raises `ValueError` with the name of the wrong field."""
    try:
        request = json.loads(b"".join(message.body))
        json.dumps(request, ensure_ascii=False).encode()  # raises for half of a character
        request = {"kind": "carry out"} | request  # raises for a list or a text
    except (TypeError, RecursionError) as fault:
        raise ValueError(f"the body is not an object in JSON: {fault}") from None
    for name, type_ in TYPES.items():
        if type(request.get(name)) is not type_:
            raise ValueError(f"{name} is not of type {type_.__name__}")
    direction, complete_by = request["direction"], datetime.fromisoformat(request["complete_by"])
    rules = {
        "schema_version": request["schema_version"] == 1,
        "direction": direction in ("do", "undo"),
        "kind": direction not in ("do", "undo") or (request["kind"], direction) in WORK,
        "effect_key": request["effect_key"].endswith(f"/{direction}"),
        "complete_by": complete_by.tzinfo is not None,
    }
    for name, is_kept in rules.items():
        if not is_kept:
            raise ValueError(f"{name} has a wrong value")
    return request | {"complete_by": complete_by}


def answer(ledger, request):
    """Return the reply to a request, or None for no reply. Repeat the attempt while the ledger is busy."""
    while True:
        try:
            return attempt(ledger, request)
        except sqlite3.OperationalError:  # busy for longer than its timeout
            if is_late(request):
                return None
            time.sleep(1)


def attempt(ledger, request):
    """Return the reply, or None. Raises `sqlite3.OperationalError` if the ledger cannot be used."""
    is_carried_out = request["kind"] == "carry out"
    with transaction(ledger):
        if is_carried_out and is_closed(ledger, request):
            outcome = {"outcome": "not_taken"}
        else:
            outcome = WORK[request["kind"], request["direction"]](ledger, request)
    if is_late(request) and request["idempotent"] and outcome["outcome"] != "not_taken":
        return None
    return {name: request[name] for name in ECHOED} | outcome


def is_late(request):
    """Return whether the deadline has passed."""
    return datetime.now(UTC) >= request["complete_by"]


def serve(ledger):
    """Serve one request after the other until the connection is lost. Run several processes for more."""
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
    """Serve until the process ends, or print each effect key with its number."""
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
            # ValueError: a message cannot be settled after its connection was lost
            print(f"connecting again: {fault}", file=sys.stderr)
            time.sleep(1)


if __name__ == "__main__":
    main()
