"""Stand-ins for the gRPC messages between the Azure Functions host and its Python worker.

Microsoft's worker library receives its message classes from its caller and only constructs and reads them, so
plain objects with the same attributes are enough, without grpc and protobuf. `MESSAGES` is the namespace for
the library.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

type DataKind = Literal[
    "string",
    "json",
    "bytes",
    "int",
    "double",
    "http",
    "collection_string",
    "collection_bytes",
    "collection_sint64",
]


class Message:
    """A message whose fields are its attributes; a field that is not set reads as None."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class TypedData:
    """One value with its kind: protobuf's `oneof data`.

    It must have no attribute `TypedData`: the library uses that to distinguish a wrapper from a value.
    """

    __slots__ = ("kind", "value")

    kind: DataKind | None
    value: Any

    def __init__(self, **data: Any) -> None:
        self.kind, self.value = next(iter(data.items()), (None, None))  # type: ignore[assignment]  # kwargs are plain str

    def WhichOneof(self, _group: str) -> DataKind | None:  # noqa: N802 - protobuf's own name
        """Return the name of the field that is set, or None."""
        return self.kind

    def __getattr__(self, name: str) -> Any:
        if name == self.kind:
            return self.value
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"TypedData({self.kind}={self.value!r})"


class ParameterBinding:
    """A parameter's name and its value; values are never passed through shared memory here."""

    __slots__ = ("data", "name")

    def __init__(self, name: str, data: TypedData) -> None:
        self.name = name
        self.data = data

    def WhichOneof(self, _group: str) -> Literal["data"]:  # noqa: N802 - protobuf's own name
        """Return that the value is inline."""
        return "data"


class StatusResult(Message):
    """How a request to the worker ended."""

    Failure = 0
    Success = 1
    Cancelled = 2


class BindingInfo(Message):
    """A binding's direction and data type. Direction `in` is a keyword in Python and is set below."""

    out = 1
    inout = 2
    undefined = 0
    string = 1
    binary = 2
    stream = 3


setattr(BindingInfo, "in", 0)


class SameSite:
    """The `SameSite` values of a cookie. `None` is a keyword in Python and is set below."""

    Lax = 1
    Strict = 2
    ExplicitNone = 3


setattr(SameSite, "None", 0)


class RpcHttpCookie(Message):
    """One cookie of an HTTP response."""

    SameSite = SameSite


_PLAIN = (
    "WorkerInitResponse",
    "FunctionMetadataResponse",
    "FunctionLoadResponse",
    "InvocationResponse",
    "FunctionEnvironmentReloadResponse",
    "WorkerMetadata",
    "RpcException",
    "RpcFunctionMetadata",
    "RpcHttp",
    "RpcRetryOptions",
    "NullableString",
    "NullableBool",
    "NullableDouble",
    "NullableTimestamp",
    "Timestamp",
)

MESSAGES = SimpleNamespace(
    TypedData=TypedData,
    ParameterBinding=ParameterBinding,
    StatusResult=StatusResult,
    BindingInfo=BindingInfo,
    RpcHttpCookie=RpcHttpCookie,
    **{name: type(name, (Message,), {}) for name in _PLAIN},
)


def strings(values: list[str]) -> TypedData:
    """Wrap a list of texts as the worker's collection."""
    return TypedData(collection_string=Message(string=values))


def byte_strings(values: list[bytes]) -> TypedData:
    """Wrap a list of byte strings as the worker's collection."""
    return TypedData(collection_bytes=Message(bytes=values))


def long_numbers(values: list[int]) -> TypedData:
    """Wrap a list of integers as the worker's collection."""
    return TypedData(collection_sint64=Message(sint64=values))
