"""Instances of the application, which can crash."""

from __future__ import annotations
