"""A payload that is written from the top down, with postponed annotations."""

from __future__ import annotations

from pydantic import BaseModel, SecretStr


class Trip(BaseModel):
    """The payload."""

    payer: Payer


class Payer(BaseModel):
    """A part of it."""

    card: Card


class Card(BaseModel):
    """A part with a secret field."""

    number: SecretStr
