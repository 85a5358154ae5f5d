"""`python -m functions_local`: runs a Python function app on this machine until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from functions_local.durable import ChaosOptions
from functions_local.errors import StartError
from functions_local.host import Host, HostOptions
from functions_local.logs import configure_logging
from functions_local.sqlite_log import Synchronous

#: What a command that was used wrongly or cannot start returns.
CANNOT_START = 2


def main() -> int:
    """Run the command; give its exit code."""
    arguments = _parser().parse_args()
    if "WEBSITE_INSTANCE_ID" in os.environ:
        print(
            "error: the local host is for a developer's machine and does not run inside Azure",
            file=sys.stderr,
        )
        return CANNOT_START
    try:
        return asyncio.run(_run(_options(arguments), verbose=arguments.verbose))
    except StartError as error:
        if arguments.verbose and error.detail:
            print(error.detail, file=sys.stderr)
        print(f"error: {error}", file=sys.stderr)
        return CANNOT_START


async def _run(options: HostOptions, *, verbose: bool) -> int:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    host = Host(options, os.environ)
    configure_logging(host.invocations.label, verbose=verbose)
    print(f"ready: {await host.start()}", flush=True)
    await stop.wait()
    if not await host.stop():
        _leave_at_once()
    return 0


def _leave_at_once() -> None:
    """End the process although a thread still runs a function; Python would wait for it for ever."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _options(arguments: argparse.Namespace) -> HostOptions:
    data: Path = arguments.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    return HostOptions(
        app=arguments.app.resolve(),
        port=arguments.port,
        data=data,
        synchronous=Synchronous[arguments.sync_mode],
        chaos=ChaosOptions(
            duplicate_activity=arguments.chaos_duplicate_activities,
            reorder=arguments.chaos_reorder,
            seed=arguments.chaos_seed,
        ),
        enforce_auth=arguments.enforce_auth,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m functions_local",
        description="Run a Python function app here: HTTP, timers, Service Bus and Durable Functions.",
        epilog="Settings come from local.settings.json in the app folder; the environment wins over it.",
    )
    parser.add_argument("--app", type=Path, default=Path(), help="folder of host.json (default: here)")
    parser.add_argument("--port", type=int, default=7071, help="port on 127.0.0.1, 0 for any (default: 7071)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".local/host"),
        help="folder of the host's state (default: %(default)s)",
    )
    parser.add_argument(
        "--sync-mode",
        choices=[mode.name for mode in Synchronous],
        default=Synchronous.NORMAL.name,
        help="NORMAL survives a killed process, FULL a power cut, at a price in speed (default: NORMAL)",
    )
    parser.add_argument("--enforce-auth", action="store_true", help="ask for the key in <data>/master.key")
    parser.add_argument("--verbose", action="store_true", help="show debug lines and stack traces")
    _add_chaos_options(parser)
    return parser


def _add_chaos_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "chaos", "Misfortunes that Azure may bring to Durable Functions, provoked to see the app endure them."
    )
    group.add_argument(
        "--chaos-duplicate-activities",
        type=_probability,
        default=0.0,
        metavar="P",
        help="run an activity twice with this probability, 0 to 1 (default: %(default)g)",
    )
    group.add_argument(
        "--chaos-reorder",
        action="store_true",
        help="bring an orchestration the messages that wait for it in random order",
    )
    group.add_argument(
        "--chaos-seed",
        type=int,
        default=0,
        metavar="N",
        help="another number draws other misfortunes, the same one the same (default: %(default)s)",
    )


def _probability(text: str) -> float:
    try:
        probability = float(text)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability: 0 to 1")
    return probability


if __name__ == "__main__":
    sys.exit(main())
