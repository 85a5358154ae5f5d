"""The security checklist, line by line: `docs/security.md` names a test for each promise."""

from __future__ import annotations
