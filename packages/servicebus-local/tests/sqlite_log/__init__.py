"""Tests of the log that broker and Durable engine keep their state in."""

from __future__ import annotations
