"""The sample workflows end to end, one folder each."""

from __future__ import annotations
