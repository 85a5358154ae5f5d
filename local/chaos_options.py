"""The options of `python -m local chaos`."""

from __future__ import annotations

import argparse

from local import arguments

#: Long enough for every kind of fault.
_CHAOS_MINUTES = 1.2


def add_chaos_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the command."""
    parser.add_argument(
        "--orders", type=arguments.positive, default=200, metavar="N", help="how many (default: 200)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="decides what happens (default: 1)")
    minutes = "how long orders and faults are sent, before the platform settles (default: %(default)s)"
    parser.add_argument(
        "--minutes", type=arguments.minutes, default=_CHAOS_MINUTES, metavar="M", help=minutes
    )
    hosts = "how many hosts share tables and broker, each with a Durable hub of its own (default: 2)"
    parser.add_argument("--hosts", type=arguments.positive, default=2, metavar="N", help=hosts)
    parser.add_argument("--submit-to", choices=["queue", "hub"], default="queue", help="(default: queue)")
    add_roles_option(parser)


def add_roles_option(parser: argparse.ArgumentParser) -> None:
    """Add the choice between one host and four."""
    meaning = "one host with all roles, or a host for each role (default: all)"
    parser.add_argument("--roles", choices=["all", "split"], default="all", help=meaning)
