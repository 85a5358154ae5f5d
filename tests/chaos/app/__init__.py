"""The application as chaos deploys it: the product's orders, which change from version to version."""

from __future__ import annotations
