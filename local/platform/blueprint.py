"""The parts of the real platform, which of them waits for which, and the order in which they stop."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from local.platform.app import (
    DECLARED_HUBS,
    DECLARED_QUEUES,
    application_settings,
    imported_modules,
    write_bound_queues,
)
from local.platform.options import Addresses, PlatformOptions
from local.platform.parts import HOSTS, Part, PartName, Readiness, StartRefusedError
from local.platform.process import ROOT
from local.platform.readiness import until_answered

#: Groups of parts. All start at once; the last group stops first, and the parts of a group stop together.
type Stages = Sequence[Sequence[Part]]
type Blueprint = Callable[[PlatformOptions, Addresses], Stages]

_AZURITE = ROOT / "node_modules" / ".bin" / "azurite"


def platform_stages(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Return Azurite and the broker, and the host, which needs both and stops before them.

    Raises `StartRefusedError` when Azurite is not installed, or a settings file cannot be read.
    """
    app, data = options.app.resolve(), options.state.resolve()
    settings = application_settings(app, os.environ, addresses, options.settings)
    azurite = _azurite(addresses, data / "azurite", options)
    broker = _broker(addresses, data / "servicebus", options, settings)
    hosts = _hosts_of_roles if addresses.ports.are_split else _hosts
    return [[azurite, broker], hosts(addresses, data, options, settings)]


def azurite_alone(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Return Azurite, as a storage account of its own. Raises `StartRefusedError`."""
    return [[_azurite(addresses, options.state.resolve() / "azurite", options)]]


def broker_alone(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Return the broker, with the queues and hubs that files declare."""
    return [[_broker(addresses, options.state.resolve() / "servicebus", options, {})]]


def _azurite(addresses: Addresses, folder: Path, options: PlatformOptions) -> Part:
    if not _AZURITE.exists():
        raise StartRefusedError(f"Azurite is not installed ({_AZURITE} is missing): run `make setup`.")
    ports = addresses.ports
    return Part(
        name=PartName.AZURITE,
        command=(
            *(str(_AZURITE), "--silent", "--skipApiVersionCheck", "--disableTelemetry"),
            *("--blobPort", str(ports.blob), "--queuePort", str(ports.queue)),
            *("--tablePort", str(ports.table)),
            *(("--inMemoryPersistence",) if options.in_memory_storage else ("--location", str(folder))),
        ),
        ready=_tables(addresses),
        stop_within=3.3,
        crash_safe=options.in_memory_storage,
    )


def _tables(addresses: Addresses) -> Readiness:
    """Return the readiness of the table service, the last of the three that Azurite starts."""
    return Readiness(addresses.table, any_status=True)


def _broker(
    addresses: Addresses, folder: Path, options: PlatformOptions, settings: Mapping[str, str]
) -> Part:
    ports = addresses.ports
    queues = (options.queues or options.app / DECLARED_QUEUES).resolve()
    are_declared = queues.exists()
    if not are_declared:
        queues = folder / "queues.json"
    hubs = (options.app / DECLARED_HUBS).resolve()

    async def write_queues() -> None:
        await until_answered(_tables(addresses))  # an app may use its tables as soon as it is loaded
        await write_bound_queues(options.app.resolve(), settings, queues)

    return Part(
        name=PartName.BROKER,
        command=(
            *(sys.executable, "-m", "servicebus_local", "--config", str(queues), "--data", str(folder)),
            *(("--hubs", str(hubs)) if hubs.exists() else ()),
            *(("--expire-on-receive",) if options.expire_on_receive else ()),
            *("--port", str(ports.service_bus), "--admin-port", str(ports.admin)),
        ),
        prepare=None if are_declared else write_queues,
        ready=Readiness(f"{addresses.admin}/health"),
        stop_within=1.5,
    )


def _hosts(
    addresses: Addresses, data: Path, options: PlatformOptions, settings: Mapping[str, str]
) -> list[Part]:
    """Return the hosts of the whole application; the folder of the first has what several hosts share."""
    hosts = []
    for name, port in zip(HOSTS, addresses.ports.hosts, strict=False):
        own = Addresses(replace(addresses.ports, host=port))
        hosts.append(_host(own, data / name, options, settings, name=name))
    shared = ("--shared", str(data / PartName.HOST)) if len(hosts) > 1 else ()
    return [replace(host, command=(*host.command, *shared)) for host in hosts]


def _hosts_of_roles(
    addresses: Addresses, data: Path, options: PlatformOptions, settings: Mapping[str, str]
) -> list[Part]:
    """Return a host for each role; each makes the tables that are missing before it starts."""
    from local.platform.roles import hosts_of, make_tables, settings_of  # noqa: PLC0415 - the application's

    async def prepare() -> None:
        await until_answered(_tables(addresses))
        await make_tables(settings)

    hosts = []
    for role, (name, port) in hosts_of(addresses.ports, settings).items():
        own = Addresses(replace(addresses.ports, host=port))
        hosts.append(
            _host(own, data / name, options, settings_of(role, settings), name=name, prepare=prepare)
        )
    return hosts


def _host(
    addresses: Addresses,
    folder: Path,
    options: PlatformOptions,
    settings: Mapping[str, str],
    *,
    name: PartName,
    prepare: Callable[[], Awaitable[None]] | None = None,
) -> Part:
    app, keys = options.app.resolve(), options.function_keys

    async def prepare_and_write_keys() -> None:
        if prepare is not None:
            await prepare()
        if keys is not None:
            _write_keys(folder, keys)

    return Part(
        name=name,
        command=(
            *(sys.executable, "-m", "functions_local", "--app", str(app), "--data", str(folder)),
            *("--port", str(addresses.ports.host)),
            *(() if keys is None else ("--enforce-auth",)),
            *(f"--preload={module}" for module in imported_modules(app)),
        ),
        # An app may use its tables as soon as it is loaded; a listener that finds no broker tries again late.
        after={
            PartName.AZURITE: ("--after", addresses.table),
            PartName.BROKER: ("--after", f"127.0.0.1:{addresses.ports.service_bus}"),
        },
        environment=settings,
        prepare=prepare_and_write_keys,
        # Its status takes a key, where keys are required; before it is ready, it does not answer at all.
        ready=Readiness(f"{addresses.host}/admin/host/status", any_status=keys is not None),
        stop_within=1.5,
    )


def _write_keys(folder: Path, keys: Mapping[str, Mapping[str, str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "keys.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(keys))
