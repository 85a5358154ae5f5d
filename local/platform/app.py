"""The app that the host runs: its settings, its imports, and the queues and event hubs that it needs."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError

from local.platform.options import Addresses
from local.platform.parts import PlatformError, StartRefusedError

DECLARED_QUEUES = Path("infra", "queues.json")
DECLARED_HUBS = Path("infra", "hubs.json")
_SAMPLE = "local.settings.sample.json"
_OWN = "local.settings.json"
#: Settings that the environment may have beside those of the files. With `EventHubConnection`, an app takes
#: orders from its event hub and reads 32 partitions, so the setting has no default.
_FURTHER = {"SAMPLE_SERVICES", "AUTH_MODE", "EventHubConnection"}
#: The address of the host, and so of the sample services, in the sample file.
_SAMPLE_HOST = "http://127.0.0.1:7071/"
#: Seconds in which the app must be loaded.
_LOADED_WITHIN = 60.0


class _SettingsFile(BaseModel):
    """The part of Core Tools' settings file that holds application settings."""

    Values: dict[str, str] = {}


def application_settings(
    app: Path,
    environment: Mapping[str, str],
    addresses: Addresses,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """Return the application's settings.

    From weak to strong: the sample file, with the host's real address; the values that the developer has
    *changed* from the sample, in `local.settings.json` or, stronger (as with Core Tools), in the environment;
    the connections to the running parts, also in place of any other connection to an emulator; `settings`.

    Raises `StartRefusedError` for a file that cannot be read.
    """
    sample = _values(app / _SAMPLE)
    own = _values(app / _OWN)
    own |= {name: environment[name] for name in {*sample, *own, *_FURTHER} & {*environment}}
    changed = {name: value for name, value in own.items() if sample.get(name) != value}
    moved = {name: value.replace(_SAMPLE_HOST, f"{addresses.host}/") for name, value in sample.items()}
    return {
        "SAMPLE_SERVICES": "1",
        "AUTH_MODE": "local",
        **{name: _on_this_platform(value, addresses) for name, value in (moved | changed).items()},
        "AzureWebJobsStorage": addresses.storage_connection,
        "StateStore": addresses.storage_connection,
        "ServiceBusConnection": addresses.service_bus_connection,
        # A connection with an address is to another platform, whose broker is shared.
        **{
            name: value if "Endpoint=" in value else _on_this_platform(value, addresses)
            for name, value in settings.items()
        },
    }


def _on_this_platform(value: str, addresses: Addresses) -> str:
    """Replace a connection to an emulator, under any setting."""
    if "UseDevelopmentStorage=true" in value:
        return addresses.storage_connection
    return addresses.service_bus_connection if "UseDevelopmentEmulator=true" in value else value


def _values(file: Path) -> dict[str, str]:
    try:
        return _SettingsFile.model_validate(json.loads(file.read_text(encoding="utf-8"))).Values
    except FileNotFoundError:
        return {}
    except (json.JSONDecodeError, ValidationError, UnicodeDecodeError) as error:
        raise StartRefusedError(f"{file} is not a settings file ('Values' of strings): {error}") from error


def imported_modules(app: Path) -> list[str]:
    """Name the modules that `function_app.py` imports at its top, in order; none if it cannot be read.

    The host can import them before the app's services answer.
    """
    try:
        tree = ast.parse((app / "function_app.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []  # the host reports it
    names: list[str] = []
    for statement in tree.body:
        match statement:
            case ast.Import(imported):
                names += [each.name for each in imported]
            case ast.ImportFrom(module=str(module), level=0) if module != "__future__":
                names.append(module)
    return list(dict.fromkeys(names))


async def write_bound_queues(
    app: Path, environment: Mapping[str, str], file: Path, *, within: float = _LOADED_WITHIN
) -> None:
    """Write the queues that the bindings of `app` name to `file`, in the broker's format.

    `environment` holds the application settings, which a queue's name may refer to. Raises `PlatformError`
    with the reason when the app cannot be loaded, or is not loaded `within` that many seconds.
    """
    # Not a pipe, which a child process of the app would keep open after the app has ended.
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "functions_local", "--app", str(app), "--queues"),
            stdout=PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )
        try:
            async with asyncio.timeout(within):
                queues, _ = await process.communicate()
        except TimeoutError as error:
            raise _unreadable(app, f"loading the app took more than {within:g} s") from error
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode:
            errors.seek(0)
            raise _unreadable(app, errors.read().decode(errors="replace").strip())
    file.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(file.write_bytes, queues)


def _unreadable(app: Path, reason: str) -> PlatformError:
    return PlatformError(
        f"The queues of {app} cannot be read from its bindings; "
        f"declare them in {DECLARED_QUEUES} there, or fix this: {reason}"
    )
