"""Messages of a queue, as those see them that peek."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from azure.servicebus import ServiceBusMessageState

from tests.fakes.clock import START


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as far as it is looked at."""

    sequence_number: int
    state: ServiceBusMessageState = ServiceBusMessageState.ACTIVE

    @property
    def enqueued_time_utc(self) -> object:
        """Tell when it came: each a minute after the one before."""
        return START + timedelta(minutes=self.sequence_number)
