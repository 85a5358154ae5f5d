"""The demo and the workflow `orders`."""

from __future__ import annotations
