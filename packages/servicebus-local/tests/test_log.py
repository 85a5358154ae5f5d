"""The log has one owner, one version, whole transactions only, and a write-ahead log that stays small."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from servicebus_local.storage import log as log_module
from servicebus_local.storage.log import LogError, MessageLog, SqlWrite

type Open = Callable[[], MessageLog]

INSERT = "INSERT INTO queue VALUES(?, 1)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the log's folder, which does not exist yet."""
    return tmp_path / "new"


@pytest.fixture
def open_log(folder: Path) -> Iterator[Open]:
    """Return a function that opens the test's log; all are closed at the end."""
    opened: list[MessageLog] = []

    def open_() -> MessageLog:
        opened.append(MessageLog(folder))
        return opened[-1]

    yield open_
    for log in opened:
        log.close()


def _names(log: MessageLog) -> list[str]:
    return [name for (name,) in log.query("SELECT name FROM queue ORDER BY name")]


def test_committed_rows_are_there_after_a_close(open_log: Open) -> None:
    """A closed log can be opened again at once, with its tables and rows."""
    log = open_log()
    log.commit([(INSERT, ("a",)), (INSERT, ("b",))])
    log.close()
    assert _names(open_log()) == ["a", "b"]


def test_writes_are_executed_in_their_order(open_log: Open) -> None:
    """Equal statements that follow each other are sent together, but none overtakes another."""
    log = open_log()
    delete = "DELETE FROM queue WHERE name=?"
    log.commit([(INSERT, ("a",)), (INSERT, ("b",)), (delete, ("a",)), (INSERT, ("a",)), (delete, ("b",))])
    assert _names(log) == ["a"]


@pytest.mark.parametrize("bad", [(INSERT, ("a",)), ("INSERT INTO missing VALUES(1)", ()), (INSERT, ())])
def test_a_failed_commit_writes_nothing_and_the_next_succeeds(open_log: Open, bad: SqlWrite) -> None:
    """A duplicate key, an unknown table, a missing parameter: earlier writes are undone, too."""
    log = open_log()
    with pytest.raises(sqlite3.Error):
        log.commit([(INSERT, ("a",)), bad])
    assert _names(log) == []
    log.commit([(INSERT, ("c",))])
    assert _names(log) == ["c"]


def test_a_second_owner_is_refused(folder: Path, open_log: Open) -> None:
    """Two processes never write one log; it is free again when the first closes it."""
    first = open_log()
    with pytest.raises(LogError, match=rf"^data folder {folder} is in use by another broker: stop it, or"):
        open_log()
    first.close()
    open_log()


@pytest.mark.process
def test_a_killed_owner_releases_the_log(folder: Path, open_log: Open) -> None:
    """The lock ends with the process, and the log contains everything that was committed."""
    open_log().close()
    owner = f"""
import pathlib, os, signal
from servicebus_local.storage.log import MessageLog
log = MessageLog(pathlib.Path({str(folder)!r}))
log.commit([({INSERT!r}, ("killed",))])
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", owner], check=False, timeout=60).returncode < 0
    assert _names(open_log()) == ["killed"]


def test_another_version_is_refused_and_not_changed(folder: Path, open_log: Open) -> None:
    """The text names both versions and the fix; the log is as it was before."""
    log = open_log()
    log.commit([(INSERT, ("a",)), ("PRAGMA user_version=99", ())])
    log.close()
    with pytest.raises(LogError, match=r"\(schema 99, this one has 3\): delete it, or choose another folder"):
        open_log()
    with closing(sqlite3.connect(folder / "messages.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)
        assert connection.execute("SELECT name FROM queue").fetchall() == [("a",)]


def test_a_damaged_log_is_released(folder: Path, open_log: Open) -> None:
    """Neither a lock nor a thread remains."""
    folder.mkdir()
    file = folder / "messages.sqlite"
    file.write_bytes(b"not a database" * 100)
    threads = set(threading.enumerate())
    with pytest.raises(sqlite3.DatabaseError):
        open_log()
    file.unlink()
    open_log().close()
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended


def test_a_commit_survives_a_killed_process_but_does_not_wait_for_the_disk(open_log: Open) -> None:
    """SQLite knows the mode NORMAL by its number."""
    assert open_log().query("PRAGMA synchronous").fetchone() == (1,)


def _fill(log: MessageLog, *names: str) -> None:
    log.commit([(INSERT, (name + "x" * 100_000,)) for name in names])


def _until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("not within ten seconds")


def test_the_write_ahead_log_is_emptied_beside_the_commits(
    folder: Path, open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit does it; the thread does it when the log has grown."""
    monkeypatch.setattr(log_module, "_CHECKPOINT_INTERVAL", 0.01)
    monkeypatch.setattr(log_module, "_PASSIVE_SIZE", 100_000)
    monkeypatch.setattr(log_module, "_TRUNCATE_SIZE", 600_000)
    log, write_ahead_log = open_log(), folder / "messages.sqlite-wal"
    log.commit([(INSERT, ("a",))])
    assert 0 < write_ahead_log.stat().st_size < 100_000
    # At once: a passive checkpoint between two of them would have the file written from its beginning again.
    _fill(log, *"bcde")
    _until(lambda: write_ahead_log.stat().st_size == 0)
    assert log.query("SELECT count(*) FROM queue").fetchone() == (5,)


def test_a_failed_checkpoint_is_reported_and_tried_again(
    open_log: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread continues after it."""
    checkpoint, failures = log_module._Checkpoints._checkpoint, iter([sqlite3.OperationalError("no")])
    succeeded = threading.Event()

    def failing_once(thread: log_module._Checkpoints, connection: sqlite3.Connection) -> None:
        for failure in failures:
            raise failure
        checkpoint(thread, connection)
        succeeded.set()

    monkeypatch.setattr(log_module, "_CHECKPOINT_INTERVAL", 0.01)
    monkeypatch.setattr(log_module._Checkpoints, "_checkpoint", failing_once)
    with caplog.at_level(logging.WARNING):
        open_log()
        assert succeeded.wait(10)
    assert "could not be checkpointed" in caplog.text
