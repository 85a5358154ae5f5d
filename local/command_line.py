"""The command line `python -m local`, and its exit codes.

0: done, or stopped by a signal. 1: a part failed, a demo or a measurement did not end as expected, a chaos
run violated an invariant, or an Agent broke a rule. 2: refused, nothing was started or submitted; or a
command that a check of an Agent was given failed. 3: of a verification nothing failed, but not everything
could be run. 130: a demo, a chaos run, a measurement, a verification or a check of an Agent was stopped
before its end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path

from local import arguments, commands
from local.platform import INTERRUPTED, PlatformError, PlatformOptions, PlatformPorts, StartRefusedError

_FAILED = 1
_REFUSED = 2
_DEFAULTS = PlatformOptions()
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
    """Return the exit code for what a user can meet; None for a mistake in this program."""
    # Imported only now: the parts of the platform start sooner without.
    from aiohttp import ClientError  # noqa: PLC0415 - see above

    from functions.workflow import DefinitionError  # noqa: PLC0415 - see above
    from local.callers.client import OrderRefusedError, UnknownResourceError  # noqa: PLC0415 - see above

    if isinstance(failure, StartRefusedError | UnknownResourceError | DefinitionError):
        return _REFUSED
    if isinstance(failure, PlatformError | OrderRefusedError | ClientError | TimeoutError):
        return _FAILED
    return None


def _command(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    match chosen.command:
        case "up" | "run":
            start = commands.up if chosen.command == "up" else commands.run
            return start(_options(chosen))
        case "demo":
            return _demo(chosen)
        case "workflows":
            return commands.lock_workflows()
        case "reset":
            return commands.forget(chosen.data)
        case _:
            return _proof(chosen)


def _proof(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    """Return a command that measures or checks; only such a command imports what it needs for that."""
    match chosen.command:
        case "chaos":
            from tests.chaos.run.command import chaos  # noqa: PLC0415 - see above

            return chaos(chosen.seed, chosen.orders, chosen.minutes, chosen.hosts)
        case "bench":
            from local.bench.command import bench  # noqa: PLC0415 - see above

            return bench(
                chosen.orders, chosen.spike, chosen.profile, chosen.hosts, in_memory=chosen.in_memory
            )
        case "cost":
            from local.cost.command import cost  # noqa: PLC0415 - see above

            return cost(chosen.orders, write_page=chosen.page)
        case "verify":
            from local.verification.command import verify_at  # noqa: PLC0415 - see above

            return verify_at(chosen.url, chosen.operators_url or chosen.url, chosen.patience)
        case _:
            return _agent_check(chosen)


def _demo(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    if chosen.url:
        return commands.demo_at(chosen.url, chosen.orders, chosen.deliveries)
    return commands.demo(_options(chosen), chosen.orders, chosen.deliveries)


def _agent_check(chosen: argparse.Namespace) -> Coroutine[None, None, int]:
    from local.agent_check.command import agent_check  # noqa: PLC0415 - as above
    from local.agent_check.options import AgentCheckOptions, read_request  # noqa: PLC0415 - as above

    return agent_check(
        AgentCheckOptions(
            agent=chosen.agent,
            run=chosen.run,
            processes=chosen.processes,
            request=read_request(chosen.request),
            effects=chosen.effects,
            hold=chosen.hold,
            connection=chosen.connection,
            lock=chosen.lock,
            abandons_unreadable=chosen.abandons_unreadable,
            only=tuple(chosen.only),
        )
    )


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
    demo.add_argument(
        "--orders", type=arguments.count, default=50, metavar="N", help="how many (default: 50)"
    )
    demo.add_argument(
        "--deliveries", type=arguments.count, default=50, metavar="M", help="how many (default: 50)"
    )
    demo.add_argument("--url", type=arguments.url, help="use a running application, and start nothing")
    _add_platform_options(demo)
    cost = subcommands.add_parser("cost", help="count what orders use, and print what a million of them cost")
    cost.add_argument(
        "--orders", type=arguments.positive, default=200, metavar="N", help="at once (default: 200)"
    )
    cost.add_argument("--page", action="store_true", help="write docs/performance.md, too")
    verify = subcommands.add_parser("verify", help="prove that a running deployment works, wherever it runs")
    verify.add_argument("--url", type=arguments.url, required=True, help="its address")
    verify.add_argument("--operators-url", type=arguments.url, help="the operators' app, if it is another")
    verify.add_argument(
        "--patience",
        type=arguments.positive,
        default=_PATIENCE,
        metavar="S",
        help="for each thing (default: %(default)s)",
    )
    verify.epilog = "Keys or tokens: VERIFY_KEY, VERIFY_TOKEN and others, as docs/deploy.md says."
    _add_chaos_options(
        subcommands.add_parser(
            "chaos", help="inject faults while orders are processed, and check the invariants"
        )
    )
    _add_bench_options(
        subcommands.add_parser(
            "bench",
            help="measure speed and cost of orders, and print two tables",
            description="Starts platforms of its own, measures them for about three minutes, and prints "
            "two tables. On a machine that does other work, the figures mean little.",
        )
    )
    _add_agent_check_options(
        subcommands.add_parser("agent-check", help="prove that an Agent in any language keeps the rules")
    )
    workflows = subcommands.add_parser("workflows", help="look after the workflows' definitions")
    workflows.add_argument(
        "action", choices=["lock"], help="write down what each version is made of, in versions.lock"
    )
    reset = subcommands.add_parser("reset", help="delete all state (refused while the platform runs)")
    _add_data_option(reset)
    return parser


def _add_platform_options(parser: argparse.ArgumentParser) -> None:
    ports = _DEFAULTS.ports
    azurite = (ports.blob, ports.queue, ports.table)
    group = parser.add_argument_group("ports (0: any free one)")
    group.add_argument(
        "--port", type=arguments.port, default=ports.host, help="the host's (default: %(default)s)"
    )
    group.add_argument(
        "--sb-port",
        type=arguments.port,
        default=ports.service_bus,
        help="the broker's (default: %(default)s)",
    )
    group.add_argument(
        "--admin-port", type=arguments.port, default=ports.admin, help="its HTTP port (default: %(default)s)"
    )
    group.add_argument(
        "--azurite-ports",
        type=arguments.azurite_ports,
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


def _add_chaos_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--orders", type=arguments.positive, default=200, metavar="N", help="how many (default: 200)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="decides what happens (default: 1)")
    minutes = "how long orders and faults are sent, before the platform settles (default: %(default)s)"
    parser.add_argument("--minutes", type=arguments.minutes, default=1.2, metavar="M", help=minutes)
    hosts = "how many hosts share tables and broker, each with a Durable hub of its own (default: 2)"
    parser.add_argument("--hosts", type=arguments.positive, default=2, metavar="N", help=hosts)


def _add_bench_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--orders",
        type=arguments.positive,
        default=500,
        metavar="N",
        help="orders that are sent at once (default: 500)",
    )
    parser.add_argument(
        "--spike",
        type=arguments.positive,
        default=50_000,
        metavar="N",
        help="orders sent to the API in batches of 500, all at once (default: 50000)",
    )
    parser.add_argument(
        "--profile", type=arguments.svg, metavar="FILE.svg", help="write a flame graph of the host too"
    )
    _add_memory_option(parser)
    _add_hosts_option(parser)


def _add_hosts_option(parser: argparse.ArgumentParser) -> None:
    hosts = "how many hosts share the Durable hub, the broker and the tables, at most 4 (default: 1)"
    parser.add_argument("--hosts", type=arguments.hosts, default=1, metavar="N", help=hosts)


def _add_agent_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="NAME", help="the Agent's name, as in agent-NAME-requests")
    parser.add_argument(
        "--run", required=True, metavar="CMD", help="starts one process of the Agent, in the foreground"
    )
    parser.add_argument(
        "--processes", type=arguments.positive, default=2, metavar="N", help="how many (default: 2)"
    )
    parser.add_argument("--request", type=Path, metavar="FILE", help="what to ask (default: a payment)")
    parser.add_argument("--effects", metavar="CMD", help="prints a line `KEY COUNT` for each effect key")
    parser.add_argument(
        "--hold", metavar="CMD", help="holds up what the Agent calls, from its first line until it is ended"
    )
    parser.add_argument(
        "--connection", metavar="STRING", help="to a broker or namespace with the queues; none is started"
    )
    parser.add_argument(
        "--lock",
        type=arguments.positive,
        default=15,
        metavar="S",
        help="the queue's lock, 5 s to 5 min, in seconds (default: 15)",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="CHECK", help="a check by its name; repeat for more"
    )
    parser.add_argument(
        "--abandons-unreadable", action="store_true", help="it can't dead-letter; Service Bus does"
    )
    parser.epilog = (
        "--run must stay in the foreground, to be killed: `exec`, no daemon, no client of containers."
        " It is waited for two locks, or five times what it needs for one request if that is longer, and at"
        " most 300 s, since it last replied to anything."
        " Exit code 0: rules are kept; 1: one is broken; 2: refused, a command of yours failed, or the broker"
        " went away."
    )


def _add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=_DEFAULTS.data,
        metavar="FOLDER",
        help="where the state is kept (default: %(default)s)",
    )


def _add_memory_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--in-memory", action="store_true", help="save no tables: faster, and empty at each start"
    )


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
