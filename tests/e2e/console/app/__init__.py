"""The application with deliveries that wait for an operator when they are refused."""

from __future__ import annotations
