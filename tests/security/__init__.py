"""Tests of the security checklist: `docs/security.md` names a test for each promise."""

from __future__ import annotations
