"""Tests of the record and its rules: each applies events and checks the record and its columns."""
