"""The measured workloads: an app on the whole platform, and the order that is sent to it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.bench.five_steps import workflow as five_steps
from local.callers.client import SAMPLE_DELIVERY, SAMPLE_ORDER, Body
from local.platform import ANY_PORTS, ROOT, PlatformOptions

#: The Supervisor, whose reads are no order's, sleeps until New Year. One caller sends all orders.
_SETTINGS = {"SUPERVISOR_SCHEDULE": "0 0 4 1 1 *", "RATE_PER_MINUTE": "1000000000"}
_FIVE_STEPS_APP = Path(five_steps.__file__).with_name("function_app.py")
_QUEUES = ROOT / "infra" / "queues.json"


@dataclass(frozen=True, slots=True)
class Workload:
    """An app, and the orders of one of its workflows; `function_app` is the file that defines the app.

    The function `last_function` records the end of each order.
    """

    name: str
    function_app: Path
    resource: str
    body: Body
    last_function: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def options(self, folder: Path) -> PlatformOptions:
        """Return the options of a platform that runs the app, with all state in `folder`.

        The app gets the application's `host.json`, settings, queues and hubs: only its workflow differs.
        """
        app = folder / "app"
        app.mkdir(parents=True)
        for file in (self.function_app, ROOT / "host.json", ROOT / "local.settings.sample.json"):
            shutil.copy(file, app)
        (app / "infra").mkdir()
        shutil.copy(ROOT / "infra" / "hubs.json", app / "infra")
        settings = {**_SETTINGS, **self.settings}
        return PlatformOptions(
            ports=ANY_PORTS, data=folder / "data", app=app, settings=settings, queues=_QUEUES
        )


#: One step, by an Agent behind a queue pair that calls a sample service in the same host.
ORDERS = Workload("orders", ROOT / "function_app.py", "orders", SAMPLE_ORDER, "agent_replies")
#: Up to five steps, some of them side by side, by Agents in the process that call sample services.
DELIVERIES = Workload("deliveries", ROOT / "function_app.py", "deliveries", SAMPLE_DELIVERY, "run_agents")
#: Five steps, by Agents in the process that take no time; no sample service runs.
FIVE_STEPS = Workload(
    "five steps",
    _FIVE_STEPS_APP,
    five_steps.RESOURCE,
    five_steps.PARCEL,
    "run_agents",
    {**five_steps.SETTINGS, "SAMPLE_SERVICES": "0"},
)
