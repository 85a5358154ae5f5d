"""Bugs that are planted in a copy of the application: the simulation has to see each of them."""

from __future__ import annotations
