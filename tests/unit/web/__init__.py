"""Tests of what the HTTP applications share."""
