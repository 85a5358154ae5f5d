"""One client's TCP connection: authentication, open and close, and the routing of frames to sessions."""

from __future__ import annotations

import asyncio
import logging

from servicebus_local.amqp import replies
from servicebus_local.amqp.channel import Channel
from servicebus_local.amqp.client_kinds import ANY_CLIENT, client_kind
from servicebus_local.amqp.frames import (
    EMPTY_FRAME,
    MAX_FRAME_BYTES,
    SASL_FRAME,
    Frame,
    FrameReader,
    frame,
)
from servicebus_local.amqp.idleness import IdleWatch
from servicebus_local.amqp.performatives import Fields, Performative
from servicebus_local.codec.decoding import decode
from servicebus_local.codec.values import AmqpError
from servicebus_local.namespace import Namespace

_log = logging.getLogger(__name__)

_CONTAINER_ID = "local-servicebus"
#: Place of the protocol id in a header, and that of a client that authenticates first (AMQP 1.0 §5.3.1).
_PROTOCOL_ID, _SASL = 4, 3
_MIN_MAX_FRAME_BYTES = 512
#: Longest write in bytes, without its last frame.
_MAX_OUTGOING_BYTES = 256 * 1024
#: First bytes of a client that uses another protocol.
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_REQUESTS = (b"GET ", b"PUT ", b"POST ", b"DELETE ")
#: Keep-alives are sent twice in the client's idle time-out (AMQP 1.0 §2.4.5); it is in milliseconds.
_KEEP_ALIVES_PER_MILLISECOND = 2 * 1000
#: Shortest time between two keep-alives in seconds: they delay the other clients.
_SHORTEST_PAUSE = 0.1


class ClientConnection(asyncio.Protocol):
    """Reads frames, answers those of the connection, and passes the others to their channels."""

    def __init__(self, namespace: Namespace, connections: set[ClientConnection]) -> None:
        self._namespace = namespace
        #: All open connections of the broker, this one included.
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._channels: dict[int, Channel] = {}
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._flush_scheduled = False
        self._greeted = False
        self._keep_alive: asyncio.TimerHandle | None = None
        self._idle_watch = IdleWatch(self)
        self.max_frame_bytes = _MIN_MAX_FRAME_BYTES
        self.has_room = True
        self.client = ANY_CLIENT
        self.had_link = False

    @property
    def channels(self) -> list[Channel]:
        """The open sessions."""
        return list(self._channels.values())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new connection."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """End all sessions; the locks of their receivers stay until they expire."""
        self._transport = None
        self._connections.discard(self)
        self._idle_watch.stop()
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        self._close_channels()

    def pause_writing(self) -> None:
        """Stop deliveries and answers until the client has read the buffer."""
        self.has_room = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume deliveries and answers after a full buffer."""
        self.has_room = True
        if self._transport is not None:
            self._transport.resume_reading()
        for channel in self.channels:
            channel.resume()

    def data_received(self, data: bytes) -> None:
        """Process all complete frames. A client that violates the protocol is disconnected."""
        if data.startswith(_TLS_HANDSHAKE) and not self._greeted:
            self._refuse("TLS: add UseDevelopmentEmulator=true to its connection string")
            return
        if data.startswith(_HTTP_REQUESTS) and not self._greeted:
            self._refuse("HTTP or WebSockets: the local broker has neither; use AMQP over TCP")
            return
        self._greeted = True
        try:
            for received in self._reader.feed(data):
                if isinstance(received, Frame):
                    self._on_frame(received)
                    continue
                self._write(received)
                if received[_PROTOCOL_ID] == _SASL:
                    self._write(frame(0, replies.SASL_MECHANISMS, SASL_FRAME))
        except AmqpError as error:
            _log.warning("a client violated the protocol and is disconnected: %s", error)
            self.shut_down("amqp:framing-error", str(error))

    def _refuse(self, spoken: str) -> None:
        _log.warning("a client is disconnected: the client speaks %s", spoken)
        self.drop()

    def send(self, channel: int, body: bytes) -> None:
        """Send a frame. All frames of one iteration of the event loop go out in one write."""
        self._write(frame(channel, body))

    def shut_down(self, condition: str, text: str) -> None:
        """Close the connection with an error."""
        self.send(0, replies.close_connection(replies.error(condition, text)))
        self._close()

    def drop(self) -> None:
        """Cut the connection without notice."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)
        if self._outgoing_bytes > _MAX_OUTGOING_BYTES:  # only a write shows whether the socket has room
            self._flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        outgoing, self._outgoing = self._outgoing, []
        self._outgoing_bytes = 0
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))

    def _close_channels(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _close(self) -> None:
        self._close_channels()
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _on_frame(self, received: Frame) -> None:
        if not received.body:
            return
        code, at = decode(received.body, 1)
        value, end = decode(received.body, at)
        if not isinstance(value, list):
            raise AmqpError("a frame's body must begin with a list of fields")
        if received.frame_type == SASL_FRAME:
            if code == Performative.SASL_INIT:
                self._write(frame(0, replies.SASL_OUTCOME, SASL_FRAME))
            return
        fields = Fields(value)
        channel = self._channels.get(received.channel)
        if channel is not None and code in channel.handlers:
            channel.handlers[code](fields, received.body, at, end)
        else:
            self._on_connection_frame(code, received.channel, fields)

    def _on_connection_frame(self, code: object, number: int, fields: Fields) -> None:
        match code:
            case Performative.OPEN:
                self._on_open(fields)
            case Performative.BEGIN:
                self._end_channel(number)
                self._channels[number] = Channel(self, number, self._namespace, fields)
                self.send(number, replies.begin_session(number))
            case Performative.END:
                self._end_channel(number)
                self.send(number, replies.END_SESSION)
            case Performative.CLOSE:
                self.send(0, replies.close_connection())
                self._close()
            case _:
                # The client sends detach frames after its end: a frame without a session is not an error.
                _log.debug("a frame 0x%s on channel %d has no session", code, number)

    def _end_channel(self, number: int) -> None:
        channel = self._channels.pop(number, None)
        if channel is not None:
            channel.close()

    def _on_open(self, fields: Fields) -> None:
        wanted = fields.number(2, MAX_FRAME_BYTES)
        self.max_frame_bytes = max(_MIN_MAX_FRAME_BYTES, min(wanted, MAX_FRAME_BYTES))
        self.send(0, replies.open_connection(_CONTAINER_ID))
        self.client = client_kind(fields)
        idle_ms = fields.number(4, 0)
        if idle_ms and self._keep_alive is None:
            self._keep_alive_every(max(_SHORTEST_PAUSE, idle_ms / _KEEP_ALIVES_PER_MILLISECOND))

    def _keep_alive_every(self, seconds: float) -> None:
        self._write(EMPTY_FRAME)
        self._keep_alive = self._loop.call_later(seconds, self._keep_alive_every, seconds)
