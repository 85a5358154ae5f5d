"""The application with deliveries that are held for an operator when they are refused."""

from __future__ import annotations
