"""A task hub: what the engine's parts share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from functions_local.durable.database import Database
from functions_local.durable.dispatcher import Dispatcher
from functions_local.durable.instances import LiveInstances


@dataclass(frozen=True, slots=True)
class TaskHub:
    """The database, the living instances and the dispatcher between them."""

    database: Database
    instances: LiveInstances
    dispatcher: Dispatcher
    #: Counters since the start.
    figures: Counter[str]
