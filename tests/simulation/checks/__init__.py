"""What must hold of a run, whatever befell it, checked on rows, messages and calls."""

from __future__ import annotations
