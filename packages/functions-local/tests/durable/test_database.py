"""One owner, one schema version, transactions that commit whole or not at all, and a log that stays small."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from functions_local.durable import DatabaseRefusedError
from functions_local.durable import database as durable_database
from functions_local.durable.database import CheckpointThread, Database, Statement
from tests.durable.workflows import until

type Open = Callable[..., Database]

TABLES = "CREATE TABLE number(value INTEGER PRIMARY KEY); CREATE TABLE word(value TEXT);"
INSERT = "INSERT INTO number VALUES(?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the database; its folder does not exist yet."""
    return tmp_path / "new" / "durable.sqlite"


@pytest.fixture
def open_database(path: Path) -> Iterator[Open]:
    """Return a function that opens the test's database; whatever it opened is closed at the end."""
    opened: list[Database] = []

    def open_(version: int = 1) -> Database:
        opened.append(Database(path, TABLES, version))
        return opened[-1]

    yield open_
    for database in opened:
        database.close()


async def commit(database: Database, *statements: Statement) -> None:
    """Commit the statements as one transaction."""
    await database.commit(statements, lambda: None)


def inserts(*values: int) -> Sequence[Statement]:
    """Return a statement for each number to insert."""
    return [(INSERT, (value,)) for value in values]


def numbers(database: Database) -> list[int]:
    """Return the committed numbers."""
    return [value for (value,) in database.query("SELECT value FROM number ORDER BY value")]


async def test_commits_are_there_after_a_close(open_database: Open) -> None:
    """A closed database can be opened again at once, with its tables and rows as they were."""
    database = open_database()
    await commit(database, *inserts(1, 2))
    database.close()
    assert numbers(open_database()) == [1, 2]


async def test_close_commits_pending_statements(open_database: Open) -> None:
    """Statements that are pending at the close are committed."""
    database = open_database()
    done = database.commit(inserts(9), lambda: None)
    database.close()
    assert done.done()
    assert numbers(open_database()) == [9]


async def test_statements_are_executed_in_their_order(open_database: Open) -> None:
    """Equal statements that follow each other are sent together, but none overtakes another."""
    database = open_database()
    delete = "DELETE FROM number WHERE value=?"
    await commit(database, *inserts(1, 2), (delete, (1,)), *inserts(1), (delete, (2,)))
    assert numbers(database) == [1]


@pytest.mark.parametrize("bad", [(INSERT, (1,)), ("INSERT INTO missing VALUES(1)", ()), (INSERT, ())])
async def test_a_failed_commit_writes_nothing_and_the_next_succeeds(
    open_database: Open, bad: Statement
) -> None:
    """A duplicate key, an unknown table, a missing parameter: earlier statements are undone too."""
    database = open_database()
    with pytest.raises(sqlite3.Error):
        await commit(database, *inserts(1), bad)
    assert numbers(database) == []
    await commit(database, *inserts(3))
    assert numbers(database) == [3]


async def test_commits_of_one_loop_iteration_are_one_transaction(open_database: Open) -> None:
    """They are executed in order, and each is notified after the commit."""
    database = open_database()
    notified: list[int] = []
    executed: list[str] = []
    database._connection.set_trace_callback(executed.append)
    commits = [
        database.commit(inserts(n), lambda n=n: notified.append(n))  # type: ignore[misc]  # a default binds n
        for n in range(3)
    ]
    assert numbers(database) == []
    await asyncio.gather(*commits)
    assert notified == [0, 1, 2]
    assert executed.count("COMMIT") == 1


async def test_a_bad_transaction_does_not_affect_the_others(
    open_database: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """If a shared commit fails, its members are committed alone, and only the bad one gets the error."""
    database = open_database()
    with caplog.at_level(logging.CRITICAL, "functions_local.durable.database"):
        good, bad, other = (
            database.commit(inserts(*values), lambda: None) for values in ((1, 2), (5, 5), (7, 8))
        )
        await good
        with pytest.raises(sqlite3.IntegrityError):
            await bad
        await other
    assert numbers(database) == [1, 2, 7, 8]


def test_a_second_owner_is_refused(path: Path, open_database: Open) -> None:
    """Two processes never write one database; it is free again when the first closes it."""
    first = open_database()
    with pytest.raises(DatabaseRefusedError) as refused:
        open_database()
    assert str(refused.value) == f"{path} is in use by another process: is the host running already?"
    first.close()
    open_database()


@pytest.mark.process
def test_a_killed_owner_keeps_no_lock(path: Path, open_database: Open) -> None:
    """The lock ends with the process, and the database has all that was committed."""
    open_database().close()
    owner = f"""
import asyncio, os, pathlib, signal
from functions_local.durable.database import Database

async def commit_and_die():
    database = Database(pathlib.Path({str(path)!r}), "", 1)
    await database.commit([({INSERT!r}, (7,))], lambda: None)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(commit_and_die())
"""
    assert subprocess.run([sys.executable, "-c", owner], check=False, timeout=60).returncode < 0
    assert numbers(open_database()) == [7]


def test_another_version_is_refused_and_not_changed(open_database: Open) -> None:
    """The text has both versions and the fix; the version that wrote the file can still open it."""
    open_database(99).close()
    with pytest.raises(DatabaseRefusedError, match=r"schema 99, this one has 1\): delete it"):
        open_database()
    open_database(99)


def test_a_refused_or_damaged_file_is_released(path: Path, open_database: Open) -> None:
    """Neither leaves a lock or a thread behind."""
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 100)
    threads = set(threading.enumerate())
    with pytest.raises(sqlite3.DatabaseError):
        open_database()
    path.unlink()
    open_database().close()
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended


def test_commits_do_not_wait_for_the_disk(open_database: Open) -> None:
    """SQLite's number of the mode NORMAL is 1."""
    assert open_database().query("PRAGMA synchronous") == [(1,)]


async def test_the_write_ahead_log_is_emptied_while_commits_go_on(
    path: Path, open_database: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit does it, and the thread does only when the log has grown."""
    monkeypatch.setattr(durable_database, "_INTERVAL", 0.01)
    monkeypatch.setattr(durable_database, "_PASSIVE_SIZE", 50_000)
    monkeypatch.setattr(durable_database, "_TRUNCATE_SIZE", 300_000)
    database, write_ahead_log = open_database(), path.with_name("durable.sqlite-wal")
    await commit(database, *inserts(1))
    assert write_ahead_log.stat().st_size < 50_000
    # At once: after a checkpoint between two commits, the second is written over the first.
    await commit(database, *[("INSERT INTO word VALUES(?)", ("x" * 100_000,))] * 4)
    await until(lambda: write_ahead_log.stat().st_size == 0)
    assert database.query("SELECT count(*) FROM word") == [(4,)]


def test_a_failed_checkpoint_is_logged_and_retried(
    open_database: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread survives it."""
    checkpoint, failures = CheckpointThread._checkpoint, iter([sqlite3.OperationalError("no")])
    succeeded = threading.Event()

    def failing_once(thread: CheckpointThread, connection: sqlite3.Connection) -> None:
        for failure in failures:
            raise failure
        checkpoint(thread, connection)
        succeeded.set()

    monkeypatch.setattr(durable_database, "_INTERVAL", 0.01)
    monkeypatch.setattr(CheckpointThread, "_checkpoint", failing_once)
    with caplog.at_level(logging.WARNING):
        open_database()
        assert succeeded.wait(20)
    assert "could not be checkpointed" in caplog.text
