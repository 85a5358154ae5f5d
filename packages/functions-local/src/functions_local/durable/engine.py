"""The engine: creates its parts, starts and stops them, and is the host's only interface to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from functions_local.cheaper_libraries import make_starts_cheaper
from functions_local.durable.activities import ActivityRunner
from functions_local.durable.answers import RPC_PREFIX, ManagementUrls
from functions_local.durable.api import ManagementApi
from functions_local.durable.client import DurableClient
from functions_local.durable.contract import DurableFunction, EngineOptions, FunctionTable, Invoke
from functions_local.durable.database import MOST_HOSTS, Database
from functions_local.durable.dispatcher import Dispatcher, TaskHub
from functions_local.durable.episode import EpisodeRunner
from functions_local.durable.instances import LiveInstances
from functions_local.durable.sharing import Sharing
from functions_local.durable.store import SCHEMA, SCHEMA_VERSION, Changes


class DurableEngine:
    """Runs the Durable orchestrations of one app in one task hub, on the event loop that starts it."""

    def __init__(
        self,
        *,
        database: Path,
        hub: str,
        orchestrators: Sequence[DurableFunction],
        activities: Sequence[DurableFunction],
        invoke: Invoke,
        options: EngineOptions,
    ) -> None:
        self.path = database
        self._hub_name = hub
        self._orchestrators = FunctionTable(orchestrators)
        self._activities = FunctionTable(activities)
        self._invoke = invoke
        self._options = options
        self._figures: Counter[str] = Counter()
        self._api = ManagementApi(hub)
        self._is_running = False

    async def start(self) -> None:
        """Open the database and resume its pending work.

        Raises DatabaseRefusedError if it cannot be used, and sqlite3.DatabaseError if it is damaged.
        """
        options = self._options
        places = MOST_HOSTS if options.is_shared else 1
        database = Database(self.path, SCHEMA, SCHEMA_VERSION, places=places)
        instances = LiveInstances(database)
        hub = self._hub = TaskHub(
            database, instances, Dispatcher(database, instances, options, self._figures), self._figures
        )
        self.client = DurableClient(hub, self._orchestrators, options.default_version)
        episodes = EpisodeRunner(hub, self._orchestrators, self._invoke, options, self.client.notify_end)
        activities = ActivityRunner(hub, self._activities, self._invoke)
        hub.dispatcher.start(episodes.run, activities.run)
        self._sharing = Sharing(database, instances, hub.dispatcher)
        self._sharing.start(is_shared=options.is_shared)
        await database.commit(Changes().forget_orphans().statements, lambda: None)
        self._api.open(self.client)
        self._is_running = True

    async def stop(self) -> None:
        """Stop, after at most `stop_grace` seconds for running functions. The next start runs the rest."""
        if not self._is_running:
            return
        self._is_running = False
        self._api.close()
        self._sharing.close()
        await self._hub.dispatcher.close()
        self._hub.database.close()

    def routes(self) -> list[web.RouteDef]:
        """Return the management API, below /runtime/webhooks/durabletask and /durabletask."""
        return self._api.routes()

    def client_binding(self, base_url: str) -> str:
        """Return the JSON of a durableClient binding; `base_url` is like http://127.0.0.1:7071."""
        return ManagementUrls(base_url, self._hub_name).client_binding()

    def make_starts_cheaper(self, base_url: str) -> None:
        """Start instances for the SDK's clients in this process without HTTP; `base_url` as above."""
        make_starts_cheaper(f"{base_url}{RPC_PREFIX}/", partial(self._api.started, base_url))

    def figures(self) -> Mapping[str, int]:
        """Return counters since the start, and the number of live instances."""
        return {**self._figures, "orchestrations_alive": len(self._hub.instances)}
