"""All small apps that the host refuses, in one start: each of the other modules is one."""

from __future__ import annotations

import importlib
from pathlib import Path

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
for module in Path(__file__).parent.glob("*.py"):
    if module.stem not in {"__init__", "function_app"}:
        app.register_functions(importlib.import_module(module.stem).app)
