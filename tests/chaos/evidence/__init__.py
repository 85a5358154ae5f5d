"""The evidence of a run: rows, notices and alerts, read without any code of the application."""

from __future__ import annotations
