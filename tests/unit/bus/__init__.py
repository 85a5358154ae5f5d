"""Tests of what is sent over Service Bus."""

from __future__ import annotations
