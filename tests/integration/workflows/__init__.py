"""Tests of the sample workflows, one folder each."""

from __future__ import annotations
