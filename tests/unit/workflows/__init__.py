"""Tests of the workflows and their registry."""
