"""Runs this application on one machine, without Azure and without Docker. Never deployed."""

from __future__ import annotations
