"""Joins the parts of the event hub, as the wiring joins all others: its adapters, and its functions."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import azure.durable_functions as df

from functions.connections import Connection
from functions.hubs.connect import connect_checkpoints, connect_hub, namespace_of
from functions.hubs.positions import BlobPositions
from functions.hubs.sender import HubSubmissions
from functions.ingestion.batch import EventBatches
from functions.ingestion.blueprint import ingestion_blueprint
from functions.ingestion.gaps import Gaps
from functions.ingestion.known_orders import KnownOrders
from functions.ingestion.lag import LagReport
from functions.ingestion.pace import Pace
from functions.operations.alerts.alerts import Alerts
from functions.pattern.ports import Ports
from functions.pattern.request_figures import BusFigures
from functions.scheduler.orchestrator import DurableSchedulers
from functions.settings import Settings
from functions.submission.intake import Intake

#: Seconds of an invocation that are left for the batch itself, however long it is held back.
_FOR_THE_BATCH = 75


class EventHub:
    """The event hub through which orders come, beside the queue; nothing connects before it is used."""

    def __init__(self, settings: Settings, connection: Connection, figures: BusFigures) -> None:
        self._settings = settings
        self._client = connect_hub(connection, settings.event_hub_name)
        self.submissions = HubSubmissions(self._client, figures)
        self._positions = BlobPositions(
            self._client,
            connect_checkpoints(settings.host_storage_connection),
            namespace=namespace_of(connection),
            name=settings.event_hub_name,
            consumer_group=settings.event_hub_consumer_group,
        )

    @classmethod
    def of(cls, settings: Settings, figures: BusFigures) -> EventHub | None:
        """Join them if the settings name an event hub. Raises `SettingsError`."""
        connection = settings.event_hubs_connection
        return None if connection is None else cls(settings, connection, figures)

    def blueprint(self, ports: Ports, intake: Intake, alerts: Alerts) -> df.Blueprint:
        """Give its functions."""
        settings, hub = self._settings, self._settings.event_hub_name
        alert_gap = partial(alerts.alert_gap, hub)
        held_back = max(0.0, settings.function_timeout_seconds - _FOR_THE_BATCH)
        longest = min(settings.pick_up_seconds, held_back / 2)
        batches = EventBatches(
            hub,
            intake,
            ports,
            pace=Pace(ports.store, ports.clock, timedelta(seconds=longest)),
            gaps=Gaps(self._positions, alert_gap),
            known=KnownOrders(ports.store),
            alert=alerts.alert_lost,
            turn_within=held_back - longest,
        )
        lag = LagReport(hub, self._positions, ports.clock, ports.heartbeats, ports.times, alert_gap)
        return ingestion_blueprint(hub, settings.event_hub_consumer_group, batches, DurableSchedulers, lag)
