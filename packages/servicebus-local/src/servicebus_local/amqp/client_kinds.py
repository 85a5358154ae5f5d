"""Differences in the broker's behaviour for Microsoft's clients, by the name in their open."""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_local.amqp.performatives import Fields

_PROPERTIES_FIELD = 9


@dataclass(frozen=True, slots=True)
class ClientKind:
    """The behaviour that a client expects."""

    #: Whether it waits up to a minute for a settled answer to a settlement. The other clients accept an
    #: unsettled refusal, after which they can send another outcome (Java's can't).
    expects_settled: bool = False
    #: Messages that are sent on a link at once.
    burst: int = 250


_KINDS = {
    "azsdk-python": ClientKind(expects_settled=True),
    "MSJSClient": ClientKind(expects_settled=True),
    # Java's client drops messages that arrive while it buffers 256.
    "azure-messaging-servicebus": ClientKind(burst=50),
}
ANY_CLIENT = ClientKind()


def client_kind(opening: Fields) -> ClientKind:
    """Return the kind of the client that sent these fields of an open."""
    properties = opening.value(_PROPERTIES_FIELD)
    product = properties.get("product") if isinstance(properties, dict) else None
    name = product if isinstance(product, str) else ""
    return next((kind for known, kind in _KINDS.items() if name.startswith(known)), ANY_CLIENT)
