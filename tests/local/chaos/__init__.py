"""Tests of the chaos run: its plan, its faults, and above all that its invariants can be violated."""
