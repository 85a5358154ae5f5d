"""Tests of the operators' API over a table in memory."""
