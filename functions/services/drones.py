"""The sample drone service: assigns one of the fleet's drones."""

from __future__ import annotations

from typing import Annotated
from zlib import crc32

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.pattern.definition import Json
from functions.services.places import Place
from functions.services.service import SampleService

_FLEET = 40
#: No drone of the fleet can carry more; a heavier package is refused with 422, for good.
_MOST_KG = 25


class Mission(BaseModel):
    """What a drone is needed for."""

    model_config = ConfigDict(extra="forbid")

    weight_kg: Annotated[float, Field(gt=0, le=_MOST_KG)]
    pickup: Place
    pickup_at: AwareDatetime


def _confirm(assignment_id: str, _mission: Mission) -> Json:
    return {"drone": f"drone-{crc32(assignment_id.encode()) % _FLEET + 1:02d}"}


DRONES = SampleService("drones", table="Drones", order=Mission, confirm=_confirm)
