"""The log on disk: what is written of messages, with one commit for all that came in one turn of the loop."""

from __future__ import annotations
