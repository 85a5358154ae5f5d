"""The checks: each is a function, its name is the line of the report, its docstring what it proves."""

from __future__ import annotations
