"""The local Functions host: runs a Python v2 function app in one process, as Azure Functions does."""

from __future__ import annotations
