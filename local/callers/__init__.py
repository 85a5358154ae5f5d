"""Sample callers of the API: they submit orders over HTTP, as any program does, and watch them."""

from __future__ import annotations
