"""Tests of the Agents."""
