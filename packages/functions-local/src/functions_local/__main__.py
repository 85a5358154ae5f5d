"""The command line, `functions-local` or `python -m functions_local`: runs a Python v2 function app."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import NoReturn

from functions_local.configuration import StartError
from functions_local.diagnostics import configure_logging
from functions_local.early_start import Address
from functions_local.host import Host, HostOptions
from functions_local.http.server import LOOPBACK
from functions_local.queues import load_queues

#: Exit code for wrong arguments and for an app or host that cannot start.
CANNOT_START = 2


def main() -> int:
    """Run the command and return its exit code."""
    arguments = _parser().parse_args()
    if "WEBSITE_INSTANCE_ID" in os.environ:
        print(
            "error: functions-local is for a developer's machine and does not run inside Azure",
            file=sys.stderr,
        )
        return CANNOT_START
    asyncio.run(_execute(arguments))
    return 0


async def _execute(arguments: argparse.Namespace) -> None:
    try:
        await (_print_queues(arguments) if arguments.queues else _run(arguments))
    except StartError as error:
        if arguments.verbose and error.detail:
            print(error.detail, file=sys.stderr)
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        _exit_at_once(CANNOT_START)


async def _print_queues(arguments: argparse.Namespace) -> NoReturn:
    # Descriptor 1 stays redirected until the process ends: the app's child processes and threads use it too.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stdout:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            queues = await load_queues(
                arguments.app.resolve(),
                os.environ,
                f"{LOOPBACK}:{arguments.port}",
                skip_unsupported=arguments.skip_unsupported,
            )
        print(json.dumps(queues, indent=2), file=stdout)
    _exit_at_once(0)


async def _run(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    host = Host(_options(arguments), os.environ)
    configure_logging(host.invocations.label, verbose=arguments.verbose)
    starting, stopping = asyncio.create_task(host.start()), asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # nothing is in flight
        _exit_at_once(0)
    print(f"ready: {await starting}", flush=True)
    await stopping
    if not await host.stop():
        _exit_at_once(0)


def _exit_at_once(code: int) -> NoReturn:
    """Exit although a thread of the app still runs: Python would wait for the thread without a timeout."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _options(arguments: argparse.Namespace) -> HostOptions:
    data: Path = arguments.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    return HostOptions(
        app=arguments.app.resolve(),
        port=arguments.port,
        data=data,
        shared=arguments.shared.resolve() if arguments.shared else None,
        enforce_auth=arguments.enforce_auth,
        skip_unsupported=arguments.skip_unsupported,
        after=arguments.after,
        preload=arguments.preload,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="functions-local",
        description="Run a Python v2 function app here: HTTP, timers, Service Bus, hubs, Durable Functions.",
        epilog="Settings come from local.settings.json in the app folder; environment variables override "
        "them. Prints `ready: http://127.0.0.1:PORT` when the app is loaded and its triggers listen, and "
        "runs until SIGINT or SIGTERM. Exit codes: 0 stopped, 2 wrong arguments or cannot start.",
    )
    parser.add_argument(
        "--app", type=Path, default=Path(), help="folder with host.json (default: current folder)"
    )
    parser.add_argument("--port", type=int, default=7071, help="port on 127.0.0.1, 0 for any (default: 7071)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".local/host"),
        help="folder for the host's state (default: %(default)s)",
    )
    parser.add_argument(
        "--shared",
        type=Path,
        metavar="FOLDER",
        help="folder of the Durable hub and the timers, for several hosts (default: --data, for one host)",
    )
    parser.add_argument(
        "--queues",
        action="store_true",
        help="print the Service Bus queues that the app's bindings name, as JSON, and exit",
    )
    parser.add_argument(
        "--enforce-auth",
        action="store_true",
        help="require function keys: <data>/master.key, or a function's own in <data>/keys.json",
    )
    parser.add_argument(
        "--skip-unsupported",
        action="store_true",
        help="leave out functions that need what this host does not support (default: they prevent a start)",
    )
    parser.add_argument(
        "--after",
        type=_address,
        action="append",
        default=[],
        metavar="URL|HOST:PORT",
        help="load the app when this answers (with any status), not before; repeat for more",
    )
    parser.add_argument(
        "--preload",
        action="append",
        default=[],
        metavar="MODULE",
        help="import this module before the app, while --after waits; repeat for more",
    )
    parser.add_argument("--verbose", action="store_true", help="show debug lines and stack traces")
    return parser


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
