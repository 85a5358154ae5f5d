"""A platform that requires function keys, some of which have a name."""

from __future__ import annotations
