"""The application, which writes its calls to the file that `CALLS_FILE` names.

A line has the Unix time of a call and the file of the called function, relative to the folder `functions`.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from pathlib import Path
from types import CodeType

import functions
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations

_FOLDER = f"{Path(functions.__file__).parent}/"
_TOOL = 4  # no tool of Python has this number

wiring = Wiring(load_settings(), load_registrations())
wiring.prepare()

app = wiring.function_app()

calls = Path(os.environ["CALLS_FILE"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - open as long as the process


def record(code: CodeType, _offset: int) -> object:
    """Write a call of the application. Bodies of modules and classes are imports, and no calls."""
    if not (code.co_filename.startswith(_FOLDER) and code.co_flags & inspect.CO_OPTIMIZED):
        return sys.monitoring.DISABLE
    calls.write(f"{time.time()} {code.co_filename.removeprefix(_FOLDER)}\n")
    return None


sys.monitoring.use_tool_id(_TOOL, "calls")
sys.monitoring.register_callback(_TOOL, sys.monitoring.events.PY_START, record)
sys.monitoring.set_events(_TOOL, sys.monitoring.events.PY_START)
