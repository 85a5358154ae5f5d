"""The Supervisor contains no business logic."""

from __future__ import annotations

import subprocess
import sys


def test_supervisor_imports_neither_workflows_nor_agents() -> None:
    """Neither itself nor through another module."""
    program = (
        "import importlib, pkgutil, sys\n"
        "from functions import supervisor\n"
        "for each in pkgutil.iter_modules(supervisor.__path__):\n"
        "    importlib.import_module(f'functions.supervisor.{each.name}')\n"
        "folders = 'functions.agents', 'functions.workflows'\n"
        "print([name for name in sys.modules if name.startswith(folders)])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
