"""The command line `python -m local`, and its exit codes.

0: done, or stopped by a signal. 1: a part failed, a demo or a measurement did not end as expected, a chaos
run violated an invariant, or an Agent broke a rule. 2: refused, nothing was started or submitted; or a
command for the check of an Agent failed. 3: no check of a verification failed, but some could not be run.
130: a demo, a chaos run, a measurement, a verification or a check of an Agent was stopped before its end.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

from local import commands
from local.platform import (
    INTERRUPTED,
    ROOT,
    PlatformError,
    PlatformOptions,
    PlatformPorts,
    StartRefusedError,
    until_stop_signal,
)
from local.platform.parts import HOSTS

_FAILED = 1
_REFUSED = 2
_DEFAULTS = PlatformOptions()
#: The sample workflows whose orders a command sends.
_SAMPLES = {"bench": ("orders",), "chaos": ("orders", "deliveries"), "cost": ("orders", "deliveries")}
#: Azurite's services, in the order of their ports.
_AZURITE_SERVICES = 3
#: The longest run is a day.
_MOST_MINUTES = 1_440
#: Seconds: twice the usual time between two sweeps, and a cold start.
_PATIENCE = 90


def main(given: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    chosen = _parser().parse_args(given)
    try:
        return asyncio.run(_command(chosen))
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as failure:
        code = _code_of(failure)
        if code is None:
            raise
        print(str(failure) or type(failure).__name__, file=sys.stderr)
        return code


def _code_of(failure: Exception) -> int | None:
    """Return the exit code for a failure that a user can cause; None for a mistake in this program."""
    # Imported only now, because the parts of the platform start sooner without them.
    from aiohttp import ClientError  # noqa: PLC0415 - faster start

    from functions.workflow import DefinitionError  # noqa: PLC0415 - faster start
    from local.callers.client import OrderRefusedError, UnknownResourceError  # noqa: PLC0415 - faster start

    if isinstance(failure, StartRefusedError | UnknownResourceError | DefinitionError):
        return _REFUSED
    if isinstance(failure, PlatformError | OrderRefusedError | ClientError | TimeoutError):
        return _FAILED
    return None


def _check_samples(command: str) -> None:
    """Check that the workflows of a command are registered. Raises `StartRefusedError`."""
    from functions.workflows.registry import FOLDERS  # noqa: PLC0415 - faster start

    if missing := [name for name in _SAMPLES.get(command, ()) if name not in FOLDERS]:
        names = " and ".join(missing)
        raise StartRefusedError(f"{command} needs the sample workflows: register {names} again.")


def _command(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    """Return the work of a command; each command imports only the modules that it needs."""
    _check_samples(chosen.command)
    match chosen.command:
        case "up" | "run":
            start = commands.up if chosen.command == "up" else commands.run
            return start(_options(chosen))
        case "demo":
            elsewhere = partial(commands.demo_at, chosen.url)
            demo = elsewhere if chosen.url else partial(commands.demo, _options(chosen))
            return demo(chosen.orders, chosen.deliveries)
        case "workflows":
            return commands.lock_workflows()
        case "reset":
            return commands.forget(chosen.data)
        case "chaos":
            from tests.chaos.command import chaos  # noqa: PLC0415 - faster start

            return chaos(chosen.seed, chosen.orders, chosen.minutes, chosen.hosts)
        case _:
            return until_stop_signal(_proof(chosen), stopped=INTERRUPTED)


def _proof(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    """Return the work of a command that proves or measures something; a signal ends it without a result."""
    match chosen.command:
        case "bench":
            from local.bench.command import bench  # noqa: PLC0415 - faster start

            return bench(
                chosen.orders, chosen.spike, chosen.profile, chosen.hosts, in_memory=chosen.in_memory
            )
        case "cost":
            from local.cost.command import cost  # noqa: PLC0415 - faster start

            return cost(chosen.orders, write_page=chosen.page)
        case "verify":
            from local.verification import verify_at  # noqa: PLC0415 - faster start

            return verify_at(chosen.url, chosen.operators_url or chosen.url, chosen.patience)
        case _:
            from local.agent_check.command import agent_check  # noqa: PLC0415 - faster start
            from local.agent_check.kit import AgentCheckOptions, read_request  # noqa: PLC0415 - faster start

            given = {name: value for name, value in vars(chosen).items() if name != "command"}
            return agent_check(AgentCheckOptions(**given | {"request": read_request(chosen.request)}))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local",
        description="Runs the application here, with Azurite, a Service Bus broker and a Functions host.",
    )
    subcommands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_platform_options(subcommands.add_parser("up", help="start everything and run until Ctrl-C"))
    _add_platform_options(subcommands.add_parser("run", help="the same, and show the progress of one order"))
    demo = subcommands.add_parser(
        "demo", help="start everything, send many orders and deliveries, print a summary, stop"
    )
    _add_number(demo, "--orders", 50, "how many", _count)
    deliveries = 50 if (ROOT / "functions/workflows/deliveries").exists() else 0
    _add_number(demo, "--deliveries", deliveries, "how many", _count, metavar="M")
    demo.add_argument("--url", type=_url, help="use a running application, and start nothing")
    _add_platform_options(demo)
    cost = subcommands.add_parser("cost", help="count what orders use, and print what a million of them cost")
    _add_number(cost, "--orders", 200, "at once")
    cost.add_argument("--page", action="store_true", help="write docs/performance.md, too")
    verify = subcommands.add_parser("verify", help="prove that a running deployment works, wherever it runs")
    verify.add_argument("--url", type=_url, required=True, help="its address")
    verify.add_argument("--operators-url", type=_url, help="the operators' app, if it is another")
    _add_number(verify, "--patience", _PATIENCE, "for each thing", metavar="S")
    verify.epilog = "Keys or tokens: VERIFY_KEY, VERIFY_TOKEN and others, as docs/deploy.md says."
    chaos = subcommands.add_parser(
        "chaos", help="inject faults while orders are processed, and check the invariants"
    )
    _add_number(chaos, "--orders", 200, "how many")
    _add_number(chaos, "--seed", 1, "decides what happens", int)
    minutes = "how long orders and faults are sent, before the platform settles"
    _add_number(chaos, "--minutes", 1.2, minutes, _minutes, metavar="M")
    hosts = "how many hosts share tables and broker, each with a Durable hub of its own"
    _add_number(chaos, "--hosts", 2, hosts)
    bench = subcommands.add_parser(
        "bench",
        help="measure speed and cost of orders, and print two tables",
        description="Starts platforms of its own, measures them for about three minutes, and prints "
        "two tables. On a machine that does other work, the figures mean little.",
    )
    _add_number(bench, "--orders", 500, "orders that are sent at once")
    _add_number(bench, "--spike", 50_000, "orders sent to the API in batches of 500, all at once")
    bench.add_argument("--profile", type=_svg, metavar="FILE.svg", help="write a flame graph of the host too")
    _add_memory_option(bench)
    _add_hosts_option(bench)
    _add_agent_check_options(
        subcommands.add_parser("agent-check", help="prove that an Agent in any language keeps the rules")
    )
    workflows = subcommands.add_parser("workflows", help="look after the workflows' definitions")
    lock = "write down what each version is made of, in versions.lock"
    workflows.add_argument("action", choices=["lock"], help=lock)
    _add_data_option(
        subcommands.add_parser("reset", help="delete all state (refused while the platform runs)")
    )
    return parser


def _integer(description: str, least: int, most: float = math.inf) -> Callable[[str], int]:
    """Return a reader of integers in a range. The reader raises `ArgumentTypeError`."""

    def read(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not {description}")
        return int(text)

    return read


_port = _integer("a port (0 to 65535)", 0, 65_535)
_count = _integer("a number of 0 or more", 0)
_hosts = _integer(f"a number of hosts (1 to {len(HOSTS)})", 1, len(HOSTS))
_positive = _integer("a number above 0", 1)


def _minutes(text: str) -> float:
    try:
        given = float(text)
    except ValueError:
        given = 0.0
    if not 0 < given <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes (above 0, at most a day)")
    return given


def _azurite_ports(text: str) -> tuple[int, ...]:
    """Read the ports of Azurite's three services, or 0 for all of them. Raises `ArgumentTypeError`."""
    ports = tuple(map(_port, text.split(",")))
    if ports == (0,):
        return ports * _AZURITE_SERVICES
    if len(ports) != _AZURITE_SERVICES:
        raise argparse.ArgumentTypeError("give three ports, as in 10000,10001,10002, or 0")
    return ports


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address, such as http://127.0.0.1:7071")
    return text


def _svg(text: str) -> Path:
    file = Path(text)
    if file.suffix != ".svg" or not file.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not an .svg file in a folder that exists")
    return file


def _add_number(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    name: str,
    default: float,
    text: str,
    kind: Callable[[str], float] = _positive,
    *,
    metavar: str | None = "N",
) -> None:
    help_text = f"{text} (default: %(default)s)"
    parser.add_argument(name, type=kind, default=default, metavar=metavar, help=help_text)


def _add_platform_options(parser: argparse.ArgumentParser) -> None:
    ports = _DEFAULTS.ports
    azurite = (ports.blob, ports.queue, ports.table)
    group = parser.add_argument_group("ports (0: any free one)")
    _add_number(group, "--port", ports.host, "the host's", _port, metavar=None)
    _add_number(group, "--sb-port", ports.service_bus, "the broker's", _port, metavar=None)
    _add_number(group, "--admin-port", ports.admin, "its HTTP port", _port, metavar=None)
    group.add_argument(
        "--azurite-ports",
        type=_azurite_ports,
        default=azurite,
        metavar="BLOB,QUEUE,TABLE|0",
        help=f"Azurite's (default: {','.join(map(str, azurite))})",
    )
    _add_data_option(parser)
    _add_memory_option(parser)
    roles = "one host with all roles, or a host for each role (default: all)"
    parser.add_argument("--roles", choices=["all", "split"], default="all", help=roles)
    _add_hosts_option(parser)
    parser.add_argument(
        "--app", type=Path, default=_DEFAULTS.app, help="folder of any v2 function_app.py (default: here)"
    )


def _add_hosts_option(parser: argparse.ArgumentParser) -> None:
    hosts = "how many hosts share the Durable hub, the broker and the tables, at most 4"
    _add_number(parser, "--hosts", 1, hosts, _hosts)


def _add_agent_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="NAME", help="the Agent's name, as in agent-NAME-requests")
    run = "starts one process of the Agent, in the foreground"
    parser.add_argument("--run", required=True, metavar="CMD", help=run)
    _add_number(parser, "--processes", 2, "how many")
    parser.add_argument("--request", type=Path, metavar="FILE", help="what to ask (default: a payment)")
    parser.add_argument("--effects", metavar="CMD", help="prints a line `KEY COUNT` for each effect key")
    hold = "holds up what the Agent calls, from its first line until it is ended"
    parser.add_argument("--hold", metavar="CMD", help=hold)
    connection = "to a broker or namespace with the queues; none is started"
    parser.add_argument("--connection", metavar="STRING", help=connection)
    _add_number(parser, "--lock", 15, "the queue's lock, 5 s to 5 min, in seconds", metavar="S")
    only = "a check by its name; repeat for more"
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help=only)
    abandons = "it can't dead-letter; Service Bus does"
    parser.add_argument("--abandons-unreadable", action="store_true", help=abandons)
    parser.epilog = (
        "--run must stay in the foreground, to be killed: `exec`, no daemon, no client of containers."
        " It is waited for two locks, or five times what it needs for one request if that is longer, and at"
        " most 300 s, since it last replied to anything."
        " Exit code 0: rules are kept; 1: one is broken; 2: refused, a command of yours failed, or the broker"
        " went away."
    )


def _add_data_option(parser: argparse.ArgumentParser) -> None:
    data = "where the state is kept (default: %(default)s)"
    parser.add_argument("--data", type=Path, default=_DEFAULTS.data, metavar="FOLDER", help=data)


def _add_memory_option(parser: argparse.ArgumentParser) -> None:
    memory = "save no tables: faster, and empty at each start"
    parser.add_argument("--in-memory", action="store_true", help=memory)


def _options(chosen: argparse.Namespace) -> PlatformOptions:
    blob, queue, table = chosen.azurite_ports
    ports = PlatformPorts(chosen.port, chosen.sb_port, chosen.admin_port, blob, queue, table)
    ports = ports.with_hosts(chosen.hosts)
    is_split = chosen.roles == "split"
    if is_split and chosen.hosts > 1:
        raise StartRefusedError("--hosts and --roles split exclude each other: choose one of them.")
    return PlatformOptions(
        ports=ports.split() if is_split else ports,
        data=chosen.data,
        app=chosen.app,
        in_memory_storage=chosen.in_memory,
    )
