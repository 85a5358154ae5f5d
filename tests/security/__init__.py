"""Tests of the threats that `docs/security.md` lists."""
