"""Tests of the sample workflows, one folder each."""
