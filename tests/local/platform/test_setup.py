"""`local/setup/find-python` finds a Python that really works, or says in one sentence how to get one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local.platform.process import ROOT

pytestmark = pytest.mark.process

_REAL = Path(sys.executable)
#: What pyenv's shim does for a version that is installed but not selected.
_BROKEN_SHIM = "#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n"
_TOO_OLD = "#!/bin/sh\nexit 1\n"


def _find(home: Path, script: str = "find-python") -> subprocess.CompletedProcess[str]:
    """Run the script with a PATH that has only `home/bin` and what a shell needs."""
    environment = {"PATH": f"{home / 'bin'}:{home / 'system'}", "HOME": str(home)}
    return subprocess.run(
        [ROOT / "local" / "setup" / script], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return an empty home folder with an empty `bin`, and a `system` without Python."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "system").mkdir()
    return tmp_path


def _program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def _works(file: Path) -> None:
    _program(file, f'#!/bin/sh\nexec "{_REAL}" "$@"\n')


def _is_real(found: subprocess.CompletedProcess[str]) -> bool:
    return found.returncode == 0 and _REAL.samefile(found.stdout.strip())


def test_python_on_the_path_is_taken(home: Path) -> None:
    """The usual case."""
    _works(home / "bin" / "python3.13")
    assert _is_real(_find(home))


def test_a_shim_that_fails_is_passed_over(home: Path) -> None:
    """A shim stands on the PATH even when its Python does not run; pyenv's versions are tried themselves."""
    _program(home / "bin" / "python3.13", _BROKEN_SHIM)
    _program(home / "bin" / "python3", _TOO_OLD)
    _works(home / ".pyenv" / "versions" / "3.13.0" / "bin" / "python")
    assert _is_real(_find(home))


def test_python3_is_taken_when_it_is_new_enough(home: Path) -> None:
    """Not every machine has the name with the version."""
    _works(home / "bin" / "python3")
    assert _is_real(_find(home))


def test_uv_is_asked_when_nothing_else_is_there(home: Path) -> None:
    """The Pythons that uv manages are not on the PATH."""
    _works(home / "managed" / "python3.13")
    _program(home / "bin" / "uv", f"#!/bin/sh\necho {home / 'managed' / 'python3.13'}\n")
    assert _is_real(_find(home))


def test_one_sentence_says_how_to_get_python(home: Path) -> None:
    """Nothing is on stdout, so that nothing is taken for a path."""
    _program(home / "bin" / "python3", _TOO_OLD)
    found = _find(home)
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr.startswith("Python 3.13 is needed")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("node", [None, "#!/bin/sh\nexit 1\n"])
def test_one_sentence_says_that_node_is_missing_or_too_old(home: Path, node: str | None) -> None:
    """`npm` alone is not enough."""
    if node:
        _program(home / "bin" / "npm", "#!/bin/sh\n")
        _program(home / "bin" / "node", node)
    found = _find(home, "check-node")
    assert found.returncode == 1
    assert found.stderr.startswith("Node 20 or later")
