"""`python -m local agent-check`, and the samples of Agents."""

from __future__ import annotations
