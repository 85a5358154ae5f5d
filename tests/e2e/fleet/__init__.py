"""A workflow of five steps, with scripted services, for tests of the whole application."""

from __future__ import annotations
