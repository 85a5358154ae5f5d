"""What options of the command line may be."""

from __future__ import annotations

import argparse
from pathlib import Path

from local.platform.parts import HOSTS

#: Azurite's services, in the order of their ports.
_AZURITE_SERVICES = 3
#: The longest run is a day.
_MOST_MINUTES = 1_440


def port(text: str) -> int:
    """Read a TCP port; 0 means any free one. Raises `ArgumentTypeError`."""
    if not (text.isdecimal() and int(text) <= 65_535):  # noqa: PLR2004 - the highest TCP port
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def minutes(text: str) -> float:
    """Read a number of minutes. Raises `ArgumentTypeError`."""
    try:
        given = float(text)
    except ValueError:
        given = 0.0
    if not 0 < given <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes (above 0, at most a day)")
    return given


def azurite_ports(text: str) -> tuple[int, ...]:
    """Read the ports of Azurite's three services, or 0 for all of them. Raises `ArgumentTypeError`."""
    ports = tuple(map(port, text.split(",")))
    if ports == (0,):
        return ports * _AZURITE_SERVICES
    if len(ports) != _AZURITE_SERVICES:
        raise argparse.ArgumentTypeError("give three ports, as in 10000,10001,10002, or 0")
    return ports


def url(text: str) -> str:
    """Read an address. Raises `ArgumentTypeError`."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address, such as http://127.0.0.1:7071")
    return text


def svg(text: str) -> Path:
    """Read the name of an image that can be written. Raises `ArgumentTypeError`."""
    file = Path(text)
    if file.suffix != ".svg" or not file.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not an .svg file in a folder that exists")
    return file


def count(text: str) -> int:
    """Read a whole number, or 0. Raises `ArgumentTypeError`."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def hosts(text: str) -> int:
    """Read a number of hosts of one application. Raises `ArgumentTypeError`."""
    if not (text.isdecimal() and 1 <= int(text) <= len(HOSTS)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hosts (1 to {len(HOSTS)})")
    return int(text)


def positive(text: str) -> int:
    """Read a whole number above 0. Raises `ArgumentTypeError`."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)
