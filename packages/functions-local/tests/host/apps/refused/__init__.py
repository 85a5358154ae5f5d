"""Small apps that the host runs or refuses: see test_apps.py."""

from __future__ import annotations
