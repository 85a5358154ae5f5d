"""Tests of the sample workflows, a folder each."""

from __future__ import annotations
