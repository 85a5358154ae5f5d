"""Tests of the local platform."""
