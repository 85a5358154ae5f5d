"""The application, which writes its calls to the file that `CALLS_FILE` names.

A line has the Unix time of a call and the file of the called function, relative to the folder `functions`.
The file is `payload` if a function of pydantic or `json` read or wrote the payload of the sample order.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import CodeType
from typing import Any

from pydantic import BaseModel, TypeAdapter

import functions
import functions.api.callers_application
from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations

_FOLDER = f"{Path(functions.__file__).parent}/"
#: It is in the payload, and in no request of its steps.
_MARK = "TEA-250"
_TOOL = 4  # no tool of Python has this number

wiring = Wiring(load_settings(), load_registrations())
wiring.prepare()

app = wiring.function_app()

calls = Path(os.environ["CALLS_FILE"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - open as long as the process


def counted(function: Callable[..., Any], *, reads: bool) -> Callable[..., Any]:
    """Return a function that also writes a line if it reads or returns the payload."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        if _MARK in str(args if reads else result):
            calls.write(f"{time.time()} payload\n")
        return result

    return call


for owner, names in (
    (BaseModel, ("model_validate", "model_validate_json", "model_dump", "model_dump_json")),
    (TypeAdapter, ("validate_python", "validate_json", "dump_python", "dump_json")),
    (json, ("loads", "dumps")),
    *(
        (module, ("from_json", "to_json"))
        for name, module in sys.modules.items()
        if name.startswith("functions.")
    ),
):
    for name in (name for name in names if hasattr(owner, name)):
        plain = inspect.getattr_static(owner, name)
        is_of_class = isinstance(plain, classmethod)
        made = counted(
            plain.__func__ if is_of_class else plain, reads="dump" not in name and name != "to_json"
        )
        setattr(owner, name, classmethod(made) if is_of_class else made)


def record(code: CodeType, _offset: int) -> object:
    """Write a call of the application. Bodies of modules and classes are imports, and no calls."""
    if not (code.co_filename.startswith(_FOLDER) and code.co_flags & inspect.CO_OPTIMIZED):
        return sys.monitoring.DISABLE
    calls.write(f"{time.time()} {code.co_filename.removeprefix(_FOLDER)}\n")
    return None


sys.monitoring.use_tool_id(_TOOL, "calls")
sys.monitoring.register_callback(_TOOL, sys.monitoring.events.PY_START, record)
sys.monitoring.set_events(_TOOL, sys.monitoring.events.PY_START)
