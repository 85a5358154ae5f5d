"""A function app with an event hub trigger."""

from __future__ import annotations
