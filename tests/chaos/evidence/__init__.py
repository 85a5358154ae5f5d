"""The evidence of a run, read without code of the application; `outcome` judges it."""

from __future__ import annotations
