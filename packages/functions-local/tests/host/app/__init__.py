"""The app that most of the tests run."""

from __future__ import annotations
