"""What callers and operators alike are shown of a step, and how views are read from records."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field, computed_field

from functions.pattern.identity import StepName, item_of
from functions.pattern.states import StepState


def read_from(*path: str) -> Any:
    """Fill a model's field from an attribute of an attribute of what it is read from."""
    return Field(validation_alias=AliasPath(path[0], *path[1:]))


class StepView(BaseModel):
    """How far one step is, or one `item` of a for-each step, from 0 on; times are UTC."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    state: StepState
    complete_by: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None

    @computed_field  # type: ignore[prop-decorator] # of pydantic
    @property
    def item(self) -> int | None:
        """Tell which item it is."""
        return item_of(StepName(self.name))
