"""Tests of the sample callers, against an API of canned answers."""
