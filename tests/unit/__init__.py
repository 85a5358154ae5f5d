"""Tests that start no process; the folders mirror functions/."""
