"""What the broker does differently for some of Microsoft's clients, by what they call themselves."""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_local.amqp.performatives import Fields

_PROPERTIES_FIELD = 9


@dataclass(frozen=True, slots=True)
class ClientKind:
    """How a client wants to be treated."""

    #: Whether it waits a minute for an answer to a settlement that is itself settled. The others take an
    #: unsettled refusal, and can then send another outcome (Java's takes no other).
    expects_settled: bool = False
    #: Messages that a link is sent at once.
    burst: int = 250


_KINDS = {
    "azsdk-python": ClientKind(expects_settled=True),
    "MSJSClient": ClientKind(expects_settled=True),
    # Java's drops all that come while 256 wait in it.
    "azure-messaging-servicebus": ClientKind(burst=50),
}
ANY_CLIENT = ClientKind()


def client_kind(opening: Fields) -> ClientKind:
    """Return the kind of the client that sent these fields of an open."""
    properties = opening.value(_PROPERTIES_FIELD)
    product = properties.get("product") if isinstance(properties, dict) else None
    name = product if isinstance(product, str) else ""
    return next((kind for known, kind in _KINDS.items() if name.startswith(known)), ANY_CLIENT)
