"""A process that ends sends what it has, and waits for no collector that is away."""

from __future__ import annotations

from threading import Event
from time import monotonic

from functions.telemetry.export import shut_down


class _Provider:
    """Takes until it is released to send what is left."""

    def __init__(self, *, released: bool) -> None:
        self.released = Event()
        self.has_sent = False
        if released:
            self.released.set()

    def shutdown(self) -> None:
        """Send."""
        self.released.wait(10)
        self.has_sent = True


def test_all_is_sent_side_by_side() -> None:
    """One that hangs keeps nothing of the others back, and nobody waits for it."""
    hanging, good = _Provider(released=False), _Provider(released=True)
    before = monotonic()
    shut_down([hanging.shutdown, good.shutdown], within=0.2)
    assert monotonic() - before < 5
    assert (hanging.has_sent, good.has_sent) == (False, True)
    hanging.released.set()


def test_sending_is_waited_for() -> None:
    """As long as it takes, within the limit."""
    provider = _Provider(released=True)
    shut_down([provider.shutdown], within=10)
    assert provider.has_sent
