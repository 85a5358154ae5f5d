"""One run of a seed, its checks and its report."""

from __future__ import annotations
