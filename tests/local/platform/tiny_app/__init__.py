"""An application of one function, for tests that need a host with something to run."""

from __future__ import annotations
