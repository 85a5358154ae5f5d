"""An exhaustive search of the core: every state that a few runs, calls, faults and an operator can reach.

Open `moves.py` first. `python -m tests.model` runs all searches.
"""
