"""The app of the tests of Durable Functions."""

from __future__ import annotations
