"""The payment service of a chaos run: it fails as told, and its ledger says what it really did."""

from __future__ import annotations
