"""What can go wrong with the local platform, told so that the developer knows what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from local.platform.parts import PartName


class PlatformError(Exception):
    """The local platform cannot go on; the text says why and what to do."""


class RefusedError(PlatformError):
    """The platform did not start anything, because what it was asked for cannot be had."""


class PortTakenError(RefusedError):
    """A port that was asked for belongs to another program."""

    def __init__(self, port: int, purpose: str, option: str, reason: str) -> None:
        super().__init__(
            f"Port {port}, meant for {purpose}, cannot be used ({reason.lower()}). "
            f"Stop the program that holds it, or choose another with {option} (0 takes any free one)."
        )
        self.port = port
        self.option = option


class FolderInUseError(RefusedError):
    """The data folder belongs to a platform that is running."""


class PartFailedError(PlatformError):
    """A part ended, or never answered, without having been told to stop."""

    def __init__(self, part: PartName, what_happened: str, last_lines: Sequence[str]) -> None:
        told = "".join(f"\n  {part} | {line}" for line in last_lines) or " nothing"
        super().__init__(f"The {part} {what_happened}. Its last lines:{told}")
        self.part = part
        self.last_lines = tuple(last_lines)
