"""Chaos: orders on the real platform while its parts are killed, cut off and lied to; then the invariants.

In the order of a run: `plan` (what will happen, by seed), `run` (it happens), `evidence` (what is left of
it), `invariants` (what must hold of that), `report` (what is told).
"""

from __future__ import annotations
