"""The operators' console, as far as it can be judged without a browser."""

from __future__ import annotations
