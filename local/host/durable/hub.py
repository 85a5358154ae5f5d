"""A task hub: what the engine's parts share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from local.host.durable.database import Database
from local.host.durable.dispatcher import Dispatcher
from local.host.durable.instances import LiveInstances


@dataclass(frozen=True, slots=True)
class TaskHub:
    """The database, the living instances and the dispatcher between them."""

    database: Database
    instances: LiveInstances
    dispatcher: Dispatcher
    #: Counters since the start.
    figures: Counter[str]
