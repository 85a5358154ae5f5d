"""Chaos: orders on the real platform while faults are injected everywhere, then a check of the invariants.

`python -m local chaos` runs it. In the order of a run: `plan` (what will happen, by seed), `run` (its
course), with `injection`, `traffic` and `remotes`; then `evidence` (what was seen) and `invariants` (what
must hold of that). The tests of this machinery, and one short run, are beside these packages.
"""

from __future__ import annotations
