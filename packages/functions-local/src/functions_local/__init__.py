"""The local Functions host: runs a Python function app as Azure Functions would, in one process."""

from __future__ import annotations
