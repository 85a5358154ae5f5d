"""Deployments of the real application without, and again with, what tasks in flight need."""

from __future__ import annotations
