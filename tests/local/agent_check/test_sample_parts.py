"""Cases of the samples that the kit does not test: all malformed requests, and a ledger that stays busy."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from local.platform import ROOT
from tests.local.agent_check.samples import PYTHON_SAMPLE, SAMPLES, go_sample, javascript_sample

pytestmark = pytest.mark.process

_PARTS = Path(__file__).parent / "parts"
_MESSAGES = ROOT / "docs" / "schemas" / "messages"
_RIGHT = {path.name: path.read_bytes() for path in _MESSAGES.glob("request-*.json")}
_BODY = _RIGHT["request-once.json"]
_OF_PAYMENT = {"effect_key": "t-1.3f9a0c27/payment/do", "request": {"amount": "1.00", "currency": "EUR"}}


def _with(name: str, value: object) -> bytes:
    return json.dumps(json.loads(_BODY) | {name: value}).encode()


def _without(name: str) -> bytes:
    return json.dumps({key: value for key, value in json.loads(_BODY).items() if key != name}).encode()


_KEY = json.loads(_BODY)["effect_key"]


def _look_up_of_undo() -> bytes:
    changes = {"kind": "find", "direction": "undo", "effect_key": _KEY.removesuffix("do") + "undo"}
    return json.dumps(json.loads(_BODY) | changes).encode()


_WRONG = {
    "nothing": b"",
    "half an object": _BODY[: len(_BODY) // 2],
    "null": b"null",
    "a list": b"[]",
    "two objects": _BODY * 2,
    "not UTF-8": _with("effect_key", "?" + _KEY).replace(b"?", b"\xe9"),
    "not UTF-8 in the request": _with("request", {"note": "?"}).replace(b"?", b"\xe9"),
    **{
        f"half a character in {name}": _with(name, "\ud800" + _KEY)
        for name in ("effect_key", "task_id", "start_id")
    },
    **{f"no {name}": _without(name) for name in json.loads(_BODY).keys() - {"kind", "result"}},
    **{f"{name} is null": _with(name, None) for name in json.loads(_BODY) if name != "result"},
    **{f"{name} is a list": _with(name, []) for name in json.loads(_BODY) if name != "result"},
    "version 2": _with("schema_version", 2),
    "epoch is a text": _with("epoch", "1"),
    "idempotent is a text": _with("idempotent", "false"),
    "idempotent is a number": _with("idempotent", 0),
    "the key of the undo": _with("effect_key", _KEY.removesuffix("do") + "undo"),
    "another kind": _with("kind", "guess"),
    "a look-up of an undo": _look_up_of_undo(),
    "no zone": _with("complete_by", "2026-11-21T12:01:00"),
}


def _python_takes(folder: Path) -> set[str]:
    taken = set()
    for path in (folder / "bodies").iterdir():
        try:
            _python().read(SimpleNamespace(body=[path.read_bytes()]))
        except ValueError:
            continue
        taken.add(path.name)
    return taken


def _javascript_takes(folder: Path) -> set[str]:
    return _taken(subprocess.check_output([*_javascript(folder), "read"], cwd=folder, text=True))


def _go_takes(folder: Path) -> set[str]:
    test = ["go", "test", "-v", "-run", "^TestTaken$", "."]
    return _taken(subprocess.check_output(test, cwd=_go(folder), text=True))


@pytest.mark.parametrize("takes", [_python_takes, _javascript_takes, _go_takes])
def test_sample_accepts_only_requests(takes: Callable[[Path], set[str]], tmp_path: Path) -> None:
    """Right is each message in `docs/schemas/messages/`; some parsers read two keys as one (rule 6)."""
    bodies = tmp_path / "bodies"
    bodies.mkdir()
    for name, body in (_RIGHT | _WRONG).items():
        (bodies / name).write_bytes(body)
    assert takes(tmp_path) == set(_RIGHT)


def test_go_waits_for_its_ledger_and_renews_as_the_page_says(tmp_path: Path) -> None:
    """Its own tests, by a clock of their own."""
    tests = ["go", "test", "-skip", "^TestTaken$", "."]
    done = subprocess.run(tests, cwd=_go(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Lock the ledger of the current folder against everybody, until this connection commits."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("payments.db", isolation_level=None)) as ledger:
        ledger.execute("BEGIN EXCLUSIVE")
        yield ledger


def _request(seconds: float) -> dict[str, Any]:
    complete_by = datetime.now(UTC) + timedelta(seconds=seconds)
    return {**json.loads(_BODY), **_OF_PAYMENT, "complete_by": complete_by}


def test_python_starts_while_its_ledger_is_busy(
    held: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until it can serve."""
    sample = _python()
    busy = sqlite3.connect("payments.db", timeout=0, isolation_level=None)
    monkeypatch.setattr(sample.sqlite3, "connect", lambda *_, **_options: busy)
    monkeypatch.setattr(sample.time, "sleep", lambda _: held.execute("COMMIT"))
    monkeypatch.setattr(sample.sys, "argv", ["payment_agent.py"])
    monkeypatch.setattr(sample, "serve", lambda _: sample.sys.exit("serves"))
    with closing(busy), pytest.raises(SystemExit, match="serves"):
        sample.main()


@pytest.mark.parametrize(("seconds", "answer"), [(60, "done"), (-1, "not_taken")])
def test_javascript_waits_for_its_ledger(
    seconds: float, answer: str, held: sqlite3.Connection, tmp_path: Path
) -> None:
    """When it starts, and until complete-by."""
    request = _request(seconds)
    (tmp_path / "request.json").write_text(json.dumps(request, default=datetime.isoformat))
    command = _javascript(tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        assert agent.stderr
        assert "locked" in agent.stderr.readline()
        held.execute("COMMIT")
        assert agent.stdout.readline() == "open\n"
        assert agent.stdout.readline() == f"{answer}\n"


def _python() -> ModuleType:
    spec = importlib.util.spec_from_file_location("payment_agent", PYTHON_SAMPLE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _javascript(folder: Path) -> list[str]:
    node, sample = javascript_sample()
    text, start, end = (
        Path(sample).read_text(encoding="utf-8").partition('if (process.argv[2] === "effects")')
    )
    assert start
    assert end.endswith("  serve();\n}\n")
    parts = (_PARTS / "parts.mjs").read_text(encoding="utf-8")
    (folder / "agent.mjs").write_text(text + parts, encoding="utf-8")
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    return [node, "agent.mjs"]


def _go(folder: Path) -> Path:
    go_sample(folder)  # skips where it can't be built
    shutil.copytree(SAMPLES / "go", folder, dirs_exist_ok=True)
    shutil.copy(_PARTS / "parts_test.go", folder)
    return folder


def _taken(printed: str) -> set[str]:
    return {line.removeprefix("taken ") for line in printed.splitlines() if line.startswith("taken ")}
