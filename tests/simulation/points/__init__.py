"""One fault at each single request of the sample workflows, on every path that they take."""

from __future__ import annotations
