"""Tests of the shared parts of the HTTP applications."""
