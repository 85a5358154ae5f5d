"""The application in the role of an Agent behind its queue, with the tables that this role needs."""

from __future__ import annotations

import os

from functions.host_functions import utc_now
from functions.roles import AGENT_TABLES
from functions.settings import load_settings
from functions.table_accounts import TableAccount
from functions.wiring import Wiring
from functions.workflows.registry import load_registrations

os.environ["AgentStore"] = os.environ["StateStore"]  # noqa: SIM112 - one account, and names of settings
settings = load_settings()
with TableAccount(settings.state_store_connection, utc_now).service() as service:
    for name in AGENT_TABLES:
        service.create_table_if_not_exists(name)
wiring = Wiring(settings, load_registrations())
wiring.prepare()

app = wiring.function_app()
