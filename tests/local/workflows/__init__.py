"""Tests of the sample workflows, a folder each."""
