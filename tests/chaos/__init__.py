"""Chaos: orders on the real local platform under kills, pauses and partitions, judged by the invariants.

`python -m local chaos` runs it; open `run/command.py` first. `plan.py` draws a run by its seed. `hosts.py`,
`remotes.py` and `callers.py` are its parts, `injection` its faults. `evidence` reads the rows, calls and
messages of the run, and maps them to the evidence that `tests.simulation.checks` judges.
"""

from __future__ import annotations
