"""Parameters that an extension package of the SDK makes: here two that look like those of Service Bus."""

from __future__ import annotations

from typing import Any

import azure.functions as func
from azurefunctions.extensions.base import GrpcClientType, InConverter, SdkType

app = func.Blueprint()


class ReceivedMessage(SdkType):
    """A message, as the client library has it."""


class MessageActions(GrpcClientType):
    """Settles messages."""


class Converter(InConverter, binding="serviceBus", trigger="serviceBusTrigger"):  # type: ignore[call-arg]  # no types
    """Makes the message."""

    @classmethod
    def check_input_type_annotation(cls, pytype: type) -> bool:
        """Accept this type only."""
        return issubclass(pytype, ReceivedMessage)

    @classmethod
    def decode(cls, data: Any, *, trigger_metadata: Any) -> Any:
        """Never called: the host refuses the function."""


@app.service_bus_queue_trigger(arg_name="message", connection="Bus", queue_name="in")
def on_sdk_message(message: ReceivedMessage) -> None:
    """Take a message as the client library has it."""


@app.service_bus_queue_trigger(arg_name="message", connection="Bus", queue_name="in")
def settles(message: func.ServiceBusMessage, actions: MessageActions) -> None:
    """Settle a message itself."""
