"""The sample workflows end to end, a folder each."""

from __future__ import annotations
