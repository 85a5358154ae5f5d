"""The application with the tests' deliveries."""

from __future__ import annotations
