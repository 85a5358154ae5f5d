"""The payload of a delivery, and the results of its steps.

The fields follow https://learn.microsoft.com/azure/architecture/microservices/design/.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import asin, cos, radians, sin, sqrt
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=100)]


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Location(_Sent):
    """A place on earth, in degrees (WGS 84)."""

    latitude: Annotated[float, Field(strict=True, ge=-90, le=90)]
    longitude: Annotated[float, Field(strict=True, ge=-180, le=180)]

    def kilometres_to(self, other: Location) -> float:
        """Return the great-circle distance by the haversine formula."""
        north = sin(radians(other.latitude - self.latitude) / 2) ** 2
        east = sin(radians(other.longitude - self.longitude) / 2) ** 2
        chord = north + cos(radians(self.latitude)) * cos(radians(other.latitude)) * east
        earth_radius_km = 6_371.0
        return 2 * earth_radius_km * asin(sqrt(min(1.0, chord)))


class Package(_Sent):
    """The package; `tag` is the sender's own label."""

    weight_kg: Annotated[float, Field(strict=True, gt=0, le=50)]
    size: Literal["small", "medium", "large"]
    tag: Text


class Delivery(_Sent):
    """A package to carry from `pickup`, at `pickup_at`, to `dropoff`, on an account."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "account": "A-1042",
                    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
                    "pickup": {"latitude": 47.6423, "longitude": -122.1391},
                    "dropoff": {"latitude": 47.6205, "longitude": -122.3493},
                    "pickup_at": "2026-11-21T12:00:00Z",
                    "expedited": False,
                }
            ]
        }
    )

    account: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    package: Package
    pickup: Location
    dropoff: Location
    # Services add hours to it, and the last year of a `datetime` is 9999.
    pickup_at: Annotated[AwareDatetime, Field(lt=datetime(9000, 1, 1, tzinfo=UTC))]
    expedited: Annotated[bool, Field(strict=True)] = False

    @property
    def distance_km(self) -> float:
        """Return the distance from pickup to dropoff in kilometres."""
        return self.pickup.kilometres_to(self.dropoff)


class Label(BaseModel):
    """The number under which a package is tracked."""

    tracking_number: Text


class Quote(BaseModel):
    """The carrier of a transport, and its price in `currency` (ISO 4217). It books nothing."""

    carrier: Text
    price: Annotated[Decimal, Field(ge=0)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class Assignment(BaseModel):
    """The assigned drone."""

    drone: Text


class Schedule(BaseModel):
    """The expected time of arrival, with its time zone."""

    expected_at: AwareDatetime
