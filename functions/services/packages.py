"""The sample package service: labels a package, so that it can be followed."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from functions.pattern.definition import Json
from functions.services.service import SampleService


class Package(BaseModel):
    """What is to be labelled."""

    model_config = ConfigDict(extra="forbid")

    weight_kg: Annotated[float, Field(gt=0, le=1_000)]
    size: Literal["small", "medium", "large"]
    tag: Annotated[str, Field(min_length=1, max_length=100)]


def _confirm(package_id: str, _package: Package) -> Json:
    return {"tracking_number": f"PK{sha256(package_id.encode()).hexdigest()[:10].upper()}"}


PACKAGES = SampleService("packages", table="Packages", order=Package, confirm=_confirm)
