"""Chaos: orders on the real local platform under kills, pauses and partitions.

`python -m local chaos` runs it; open `run/command.py` first. `plan.py` draws a run by its seed. `hosts.py`,
`remotes.py` and `callers.py` are its parts, `injection` its faults. `evidence` reads the tables, and judges
by the checks of the simulation.
"""

from __future__ import annotations
