"""What can go wrong with the local platform; each text says why, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from local.platform.parts import PartName


class PlatformError(Exception):
    """The local platform cannot go on."""


class StartRefusedError(PlatformError):
    """The platform started nothing, because an option or the machine does not allow it."""


class PortTakenError(StartRefusedError):
    """A requested port belongs to another program."""

    def __init__(self, port: int, purpose: str, option: str, reason: str) -> None:
        super().__init__(
            f"Port {port}, meant for {purpose}, cannot be used ({reason.lower()}). "
            f"Stop the program that uses it, or choose another with {option} (0 takes any free one)."
        )
        self.port = port
        self.option = option


class FolderInUseError(StartRefusedError):
    """The data folder is in use by a running platform."""


class PartFailedError(PlatformError):
    """A part ended without having been stopped, or did not become ready."""

    def __init__(self, part: PartName, what_happened: str, last_lines: Sequence[str]) -> None:
        lines = "".join(f"\n  {part} | {line}" for line in last_lines) or " nothing"
        super().__init__(f"The {part} {what_happened}. Its last lines:{lines}")
        self.part = part
        self.last_lines = tuple(last_lines)
