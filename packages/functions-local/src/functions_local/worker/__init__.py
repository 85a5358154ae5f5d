"""Microsoft's Python worker library, driven as the Azure Functions host drives it."""

from __future__ import annotations
