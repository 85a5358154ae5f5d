"""Tests of functions-local."""
