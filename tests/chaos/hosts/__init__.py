"""The hosts of a run: each with connections, a clock and a version of the application of its own."""

from __future__ import annotations
