"""The application with the tests' workflows."""

from __future__ import annotations
