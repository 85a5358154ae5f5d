"""The remote services that Agents call, and what they have done."""

from __future__ import annotations
