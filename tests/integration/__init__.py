"""Tests against the real Azurite."""
