"""Chaos: orders on the real local platform under kills, pauses and partitions.

`python -m local chaos` runs it; open `command.py` first. `plan.py` draws a run by its seed. `environment.py`,
`remotes.py` and `callers.py` are its parts, `injection.py` its faults. `evidence.py` reads the tables, and
`judge.py` judges by the checks of the simulation.
"""

from __future__ import annotations
