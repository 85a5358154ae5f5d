"""The queues that an app's bindings name, in the form that a local broker reads as its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any

from functions_local.app import Function, ServiceBusTrigger, load_functions
from functions_local.configuration import AppSettings
from functions_local.host_json import load_host_json
from functions_local.worker import Worker

#: A sub-queue belongs to its queue: `orders/$DeadLetterQueue`, `orders/$Transfer/$DeadLetterQueue`.
_SUB_QUEUE = re.compile(r"(/\$transfer)?/\$deadletterqueue$", re.IGNORECASE)


async def load_queues(
    folder: Path, environment: MutableMapping[str, str], address: str, *, skip_unsupported: bool
) -> dict[str, Any]:
    """Load the app in `folder` and return its queue configuration, without a connection to any service.

    The app's settings are added to `environment`; `address` is the host's own address. Raises StartError
    when the app cannot be loaded, or has an unsupported function that is not skipped.
    """
    settings = AppSettings.load(folder, environment)
    load_host_json(folder, settings)
    settings.export(environment, folder, address)
    worker = Worker(folder)
    functions = await load_functions(worker, settings, folder, skip_unsupported=skip_unsupported)
    worker.stop()
    return queue_configuration(functions)


def queue_configuration(functions: Iterable[Function]) -> dict[str, Any]:
    """Return `{"queues": [{"name": …}]}`, sorted by name; the broker's defaults apply to each queue.

    Service Bus compares names without regard to case, so each queue is listed once.
    """
    names = {_SUB_QUEUE.sub("", name) for function in functions for name in _names(function)}
    distinct = {name.lower(): name for name in sorted(names)}
    return {"queues": [{"name": distinct[key]} for key in sorted(distinct)]}


def _names(function: Function) -> Iterable[str]:
    if isinstance(function.trigger, ServiceBusTrigger):
        yield function.trigger.queue
    for output in function.outputs:
        yield output.queue
