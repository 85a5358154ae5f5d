"""A process that ends sends what it has, and waits for no collector that is away."""

from __future__ import annotations

from threading import Event

from functions.telemetry.export import shut_down


class _Provider:
    """Takes until it is released to send what is left."""

    def __init__(self, *, released: bool) -> None:
        self.released = Event()
        self.sent = Event()
        if released:
            self.released.set()

    def shutdown(self) -> None:
        """Send."""
        self.released.wait()
        self.sent.set()


def test_all_is_sent_side_by_side() -> None:
    """One that hangs keeps nothing of the others back, and nobody waits for it."""
    hanging, good = _Provider(released=False), _Provider(released=True)
    shut_down([hanging.shutdown, good.shutdown], within=0.2)
    assert good.sent.wait(60)
    assert not hanging.sent.is_set()
    hanging.released.set()


def test_sending_is_waited_for() -> None:
    """As long as it takes, within the limit."""
    provider = _Provider(released=True)
    shut_down([provider.shutdown], within=60)
    assert provider.sent.is_set()
