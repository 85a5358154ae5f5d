"""One owner, one version, all of a transaction or nothing, and a write-ahead log that stays small."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servicebus_local.sqlite_log import (
    LogRefusedError,
    Schema,
    SqliteLog,
    Statement,
    Synchronous,
    checkpoints,
)

type Open = Callable[..., SqliteLog]

INSERT = "INSERT INTO number VALUES(?)"


def _schema(version: int = 1) -> Schema:
    return Schema(
        "CREATE TABLE number(value INTEGER PRIMARY KEY); CREATE TABLE word(value TEXT);",
        version,
        subject="the log",
        other_owner="somebody else: stop them",
        remedy="delete it",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Say where the log is; its folder does not exist yet."""
    return tmp_path / "new" / "log.sqlite"


@pytest.fixture
def open_log(path: Path) -> Iterator[Open]:
    """Return a function that opens the test's log; what it opened is closed in the end."""
    opened: list[SqliteLog] = []

    def open_(version: int = 1, synchronous: Synchronous = Synchronous.NORMAL) -> SqliteLog:
        opened.append(SqliteLog(path, _schema(version), synchronous))
        return opened[-1]

    yield open_
    for log in opened:
        log.close()


def _numbers(log: SqliteLog) -> list[int]:
    return [value for (value,) in log.query("SELECT value FROM number ORDER BY value")]


def test_what_was_committed_is_there_after_a_close(open_log: Open) -> None:
    """A closed log can be opened again at once, its tables and rows as they were."""
    log = open_log()
    log.commit([(INSERT, (1,)), (INSERT, (2,))])
    log.close()
    assert _numbers(open_log()) == [1, 2]


def test_statements_are_carried_out_in_their_order(open_log: Open) -> None:
    """Equal statements that follow each other are sent together, but none overtakes another."""
    log = open_log()
    forget = "DELETE FROM number WHERE value=?"
    log.commit([(INSERT, (1,)), (INSERT, (2,)), (forget, (1,)), (INSERT, (1,)), (forget, (2,))])
    assert _numbers(log) == [1]


@pytest.mark.parametrize("bad", [(INSERT, (1,)), ("INSERT INTO missing VALUES(1)", ()), (INSERT, ())])
def test_a_failed_commit_writes_nothing_and_the_next_succeeds(open_log: Open, bad: Statement) -> None:
    """A key twice, an unknown table, a missing parameter: what came before in the transaction goes, too."""
    log = open_log()
    with pytest.raises(sqlite3.Error):
        log.commit([(INSERT, (1,)), bad])
    assert _numbers(log) == []
    log.commit([(INSERT, (3,))])
    assert _numbers(log) == [3]


def test_a_second_owner_is_refused_in_the_parts_own_words(open_log: Open) -> None:
    """Two processes never write one log; it is free again when the first closes it."""
    first = open_log()
    with pytest.raises(LogRefusedError, match=r"^the log is in use by somebody else: stop them$"):
        open_log()
    first.close()
    open_log()


@pytest.mark.process
def test_a_killed_owner_keeps_nobody_out(path: Path, open_log: Open) -> None:
    """The lock ends with the process, and the log has all that was committed."""
    open_log().close()
    owner = f"""
import pathlib, os, signal
from servicebus_local.sqlite_log import Schema, SqliteLog, Synchronous
log = SqliteLog(pathlib.Path({str(path)!r}), Schema("", 1, "", "", ""), Synchronous.NORMAL)
log.commit([({INSERT!r}, (7,))])
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", owner], check=False, timeout=20).returncode < 0
    assert _numbers(open_log()) == [7]


def test_another_version_is_refused_and_left_alone(open_log: Open) -> None:
    """The text has both versions and the remedy; who wrote the log can still open it."""
    open_log(99).close()
    with pytest.raises(LogRefusedError, match=r"schema 99, this one has 1\): delete it$"):
        open_log()
    open_log(99)


def test_a_refused_or_damaged_log_is_let_go(path: Path, open_log: Open) -> None:
    """Neither leaves a lock or a thread behind."""
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 100)
    threads = threading.active_count()
    with pytest.raises(sqlite3.DatabaseError):
        open_log()
    path.unlink()
    open_log().close()
    assert threading.active_count() == threads


@pytest.mark.parametrize(("synchronous", "number"), [(Synchronous.NORMAL, 1), (Synchronous.FULL, 2)])
def test_commits_are_as_durable_as_asked(open_log: Open, synchronous: Synchronous, number: int) -> None:
    """SQLite knows the modes by number."""
    assert open_log(synchronous=synchronous).query("PRAGMA synchronous").fetchone() == (number,)


def _fill(log: SqliteLog) -> None:
    log.commit([("INSERT INTO word VALUES(?)", ("x" * 100_000,))])


def _until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("not within ten seconds")


def test_the_write_ahead_log_is_emptied_beside_the_commits(
    path: Path, open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit does it, and the thread does only when the log has grown."""
    monkeypatch.setattr(checkpoints, "_INTERVAL", 0.01)
    monkeypatch.setattr(checkpoints, "_PASSIVE_SIZE", 50_000)
    monkeypatch.setattr(checkpoints, "_TRUNCATE_SIZE", 300_000)
    log, write_ahead_log = open_log(), path.with_name("log.sqlite-wal")
    log.commit([(INSERT, (1,))])
    assert write_ahead_log.stat().st_size < 50_000
    for _ in range(4):
        _fill(log)
    _until(lambda: write_ahead_log.stat().st_size == 0)
    assert log.query("SELECT count(*) FROM word").fetchone() == (4,)


def test_a_failed_checkpoint_is_reported_and_tried_again(
    open_log: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread outlives it."""
    checkpoint, failures = checkpoints.CheckpointThread._checkpoint, iter([sqlite3.OperationalError("no")])
    succeeded = threading.Event()

    def failing_once(thread: checkpoints.CheckpointThread, connection: sqlite3.Connection) -> None:
        for failure in failures:
            raise failure
        checkpoint(thread, connection)
        succeeded.set()

    monkeypatch.setattr(checkpoints, "_INTERVAL", 0.01)
    monkeypatch.setattr(checkpoints.CheckpointThread, "_checkpoint", failing_once)
    with caplog.at_level(logging.WARNING):
        open_log()
        assert succeeded.wait(10)
    assert "could not be checkpointed" in caplog.text
