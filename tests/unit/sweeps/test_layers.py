"""The Supervisor contains no business logic."""

from __future__ import annotations

import subprocess
import sys


def test_supervisor_imports_neither_workflows_nor_agents() -> None:
    """Neither itself nor through another module."""
    program = (
        "import sys\n"
        "from functions.supervisor import outbox_relay, sweep_progress, table_sweep, task_sweep\n"
        "folders = 'functions.agents', 'functions.workflows'\n"
        "print([name for name in sys.modules if name.startswith(folders)])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
