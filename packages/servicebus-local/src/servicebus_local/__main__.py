"""The command line: `servicebus-local --queue orders`, or `python -m servicebus_local --queue orders`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

from servicebus_local.config import (
    BrokerConfig,
    ConfigurationError,
    queues_named,
    read_config,
    with_hubs_named,
    with_hubs_of,
)
from servicebus_local.server import HOST, Broker, PortError
from servicebus_local.storage.log import LogError

_EXIT_FAILED, _EXIT_REFUSED = 1, 2
_LAST_PORT = 65535


def main() -> int:
    """Run until SIGTERM or SIGINT, and return the exit code.

    0 after a signal, 1 when the log can't be written, 2 for a mistake that the user can fix.
    """
    parser = _parser()
    options = parser.parse_args()
    if not (options.queue or options.config or options.hub or options.hubs):
        parser.error("name a queue or a hub: --queue, --config, --hub or --hubs is required")
    level = logging.DEBUG if options.verbose else logging.INFO
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    if os.environ.get("WEBSITE_INSTANCE_ID"):
        return _refuse(
            "the local broker is local only: it does not start inside Azure (WEBSITE_INSTANCE_ID is set)"
        )
    try:
        config = _configuration(options)
        return asyncio.run(_serve(config, options.data, options.port, options.admin_port))
    except (ConfigurationError, LogError, PortError) as error:
        return _refuse(str(error))
    except sqlite3.DatabaseError as error:
        return _refuse(
            f"data folder {options.data} is damaged ({error}): delete it, or choose another with --data"
        )


def _configuration(options: argparse.Namespace) -> BrokerConfig:
    """Return the configuration of the options. Raises ConfigurationError."""
    config = read_config(options.config) if options.config else queues_named(options.queue)
    config = replace(config, expire_on_receive=options.expire_on_receive)
    if options.hubs:
        return with_hubs_of(config, options.hubs)
    return with_hubs_named(config, options.hub)


async def _serve(config: BrokerConfig, data: Path, port: int, admin_port: int) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not loop.add_signal_handler, which Windows lacks.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopping.set))
    broker = await Broker.start(config, data, port=port, admin_port=admin_port)
    try:
        endpoints = broker.endpoints
        print(f"ready: sb://{HOST}:{endpoints.port} admin: http://{HOST}:{endpoints.admin_port}", flush=True)
        waiting = [asyncio.create_task(event.wait()) for event in (stopping, broker.failed)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
    finally:
        await broker.stop()
    return _EXIT_FAILED if broker.failed.is_set() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="servicebus-local",
        description="A local broker for the unmodified clients of Azure Service Bus (queues only) and Azure "
        "Event Hubs. Prints one line on stdout when it is ready; everything else goes to stderr.",
        epilog="Exit codes: 0 after SIGTERM or SIGINT, 1 when the data folder can't be written any more, "
        "2 for a wrong option, configuration, port or data folder.",
    )
    _add_entities(parser)
    parser.add_argument(
        "--port", type=_port, default=5672, help="AMQP port, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--admin-port", type=_port, default=5300, help="HTTP port, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".local/servicebus"),
        metavar="FOLDER",
        help="data folder (default: %(default)s)",
    )
    parser.add_argument(
        "--expire-on-receive",
        action="store_true",
        help="expire messages only when a receiver requests messages (default: at once)",
    )
    parser.add_argument("--verbose", action="store_true", help="also log details of the protocol")
    return parser


def _add_entities(parser: argparse.ArgumentParser) -> None:
    queues = parser.add_mutually_exclusive_group()
    queues.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="NAME",
        help="a queue with default properties; repeat for more",
    )
    queues.add_argument(
        "--config", type=Path, metavar="FILE", help="JSON file with the queues, - for standard input"
    )
    hubs = parser.add_mutually_exclusive_group()
    hubs.add_argument(
        "--hub",
        action="append",
        default=[],
        metavar="NAME",
        help="an event hub with default properties; repeat for more",
    )
    hubs.add_argument("--hubs", type=Path, metavar="FILE", help="JSON file with the event hubs")


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else -1
    if not 0 <= port <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: 0 to {_LAST_PORT}")
    return port


def _refuse(text: str) -> int:
    print(text, file=sys.stderr)
    return _EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main())
