"""An exhaustive search of the core: every state that a few runs, calls, faults and an operator can reach.

Open `moves.py` first. `pytest tests/model -s` runs all searches and prints their figures.
"""
