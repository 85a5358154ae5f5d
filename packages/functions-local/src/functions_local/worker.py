"""Drives Microsoft's worker library as the Azure Functions host does: loads the app and runs its functions.

This is the only module that uses `azure_functions_runtime`. The library keeps its state in module globals,
so a process has one app. It runs in the host's own event loop: an `async def` function that blocks therefore
blocks the host (see `diagnostics`); a plain `def` function runs on the library's thread pool and does not.
Orchestrators are plain functions, too, but they only compute, and a thread costs more than a replay: they run
on the loop, without the library's dispatch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import azure_functions_runtime as runtime
from azure.functions import OrchestrationContext
from azure_functions_runtime import handle_event
from azure_functions_runtime.http_v2 import HttpV2Registry

from functions_local.cheaper_libraries import make_libraries_cheaper
from functions_local.configuration import StartError
from functions_local.protos import MESSAGES, Message, ParameterBinding, StatusResult, TypedData

_NO_TRACE = Message(trace_parent="", trace_state="", attributes={})


@dataclass(frozen=True, slots=True)
class Indexed:
    """One function as the library has indexed it."""

    name: str
    function_id: str
    #: As in a function.json.
    bindings: Sequence[Mapping[str, Any]]
    #: The library's message of the function's retry policy, or None.
    retry_options: Any = None
    #: What the function uses of the SDK's extension packages, in words.
    extensions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation, as passed to the worker."""

    invocation_id: str
    function_id: str
    inputs: Mapping[str, TypedData]
    metadata: Mapping[str, TypedData] = field(default_factory=dict)
    retry_count: int = 0
    max_retry_count: int = 0


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The function returned: its value, and the values of its output bindings by name."""

    value: TypedData | None
    outputs: Mapping[str, TypedData]

    def given(self, binding: str) -> TypedData | None:
        """Return the value of an output binding; `$return` is the function's return value."""
        data = self.value if binding == "$return" else self.outputs.get(binding)
        return None if data is None or data.kind is None else data


@dataclass(frozen=True, slots=True)
class FunctionFailed:
    """The function raised. `message` is the worker's text, such as `ValueError: boom`."""

    message: str
    stack: str


type Outcome = Succeeded | FunctionFailed


class Worker:
    """The app's code, loaded once in this process."""

    def __init__(self, app_folder: Path) -> None:
        self._app_folder = app_folder

    def enter_app_folder(self) -> None:
        """Make the app's modules importable by name. `start` calls it if it was not called before."""
        os.chdir(self._app_folder)  # the Durable SDK reads host.json from the current folder
        if sys.path[0] != str(self._app_folder):
            sys.path.insert(0, str(self._app_folder))

    async def start(self) -> Sequence[Indexed]:
        """Import and index the app, and return its functions.

        Raises StartError with the app's own message when it cannot be imported or indexed.
        """
        self.enter_app_folder()
        runtime.start_threadpool_executor()
        init = Message(capabilities={}, function_app_directory=str(self._app_folder))
        library_log = logging.getLogger("azure.functions")
        library_log.disabled = True  # it logs a failed import, with two lists of paths; StartError reports it
        handle_event.initialize_http_server = lambda _host: ""  # of HTTP streaming, which is not supported
        try:
            response = await runtime.worker_init_request(
                _request("worker_init_request", init, host="127.0.0.1")
            )
        except SystemExit as error:
            raise StartError(
                _one_line(f"the app ended the process while it was imported: {error.code}")
            ) from error
        finally:
            library_log.disabled = False
        if response.result.status != StatusResult.Success:
            failure = response.result.exception
            raise StartError(
                f"the app cannot be loaded: {_one_line(failure.message)}", detail=failure.stack_trace or ""
            )
        make_libraries_cheaper()
        metadata = await runtime.functions_metadata_request(_request("functions_metadata_request", Message()))
        return [_indexed(each) for each in metadata.function_metadata_results or ()]

    async def invoke(self, call: Call) -> Outcome:
        """Run one function. Return any exception, `SystemExit` too, as FunctionFailed."""
        body = Message(
            invocation_id=call.invocation_id,
            function_id=call.function_id,
            input_data=[ParameterBinding(name, data) for name, data in call.inputs.items()],
            trigger_metadata=call.metadata,
            trace_context=_NO_TRACE,
            retry_context=Message(
                retry_count=call.retry_count, max_retry_count=call.max_retry_count, exception=None
            ),
        )
        context = runtime.invocation_id_cv.set(call.invocation_id)
        try:
            response = await runtime.invocation_request(_request("invocation_request", body))
        except (
            SystemExit,
            KeyboardInterrupt,
        ) as error:  # the library does not catch them: they would end the host
            return _failed(error)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return _failed(error)  # of a task that the function awaited
        finally:
            runtime.invocation_id_cv.reset(context)
        if response.result.status != StatusResult.Success:
            return FunctionFailed(
                response.result.exception.message, response.result.exception.stack_trace or ""
            )
        return Succeeded(
            response.return_value, {output.name: output.data for output in response.output_data or ()}
        )

    def replay(self, invocation_id: str, function_id: str, parameter: str, context: str) -> Outcome:
        """Run an orchestrator at once, on the loop, with its context as JSON text.

        Return any exception as FunctionFailed, with the same text as `invoke`.
        """
        orchestrator = handle_event._functions.get_function(function_id)  # noqa: SLF001 - the library's index
        running = runtime.invocation_id_cv.set(invocation_id)
        try:
            state = orchestrator.func(**{parameter: OrchestrationContext(context)})
        except BaseException as error:  # noqa: BLE001 - `SystemExit` too: it would end the host
            return _failed(error)
        finally:
            runtime.invocation_id_cv.reset(running)
        return Succeeded(TypedData(json=state), {})

    def stop(self) -> None:
        """Accept no new work on the thread pool; threads that run a function are not interrupted."""
        runtime.get_threadpool_executor().shutdown(wait=False, cancel_futures=True)


def current_invocation_id() -> str | None:
    """Return the id of the invocation whose code is running, also on the worker's threads."""
    invocation_id: str | None = runtime.invocation_id_cv.get()
    return invocation_id


def invocation_id_in(context: Any) -> str | None:
    """Return the id of the invocation that a task's context belongs to."""
    invocation_id: str | None = context.get(runtime.invocation_id_cv)
    return invocation_id


def _failed(error: BaseException) -> FunctionFailed:
    return FunctionFailed(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


def _request(kind: str, body: Message, **properties: Any) -> Message:
    return Message(request=Message(**{kind: body}), properties={"protos": MESSAGES, **properties})


def _indexed(metadata: Any) -> Indexed:
    bindings = [json.loads(raw) for raw in metadata.raw_bindings]
    extensions = _extensions(metadata.function_id)
    return Indexed(metadata.name, metadata.function_id, bindings, metadata.retry_options, extensions)


def _extensions(function_id: str) -> list[str]:
    found = []
    function = handle_event._functions.get_function(function_id)  # noqa: SLF001 - the library's index
    if function.is_http_func and HttpV2Registry.http_v2_enabled():
        found.append(f"HTTP streaming ({function.trigger_metadata['param_name']})")
    if function.settlement_client_arg is not None:
        found.append(f"a settlement client as its parameter ({function.settlement_client_arg})")
    return found


def _one_line(message: str) -> str:
    # The library ends the message of a missing module with a list of paths.
    lines = [line.strip() for line in message.partition(" For more info, please refer")[0].splitlines()]
    # pydantic ends each of its messages with a link, which would make the line unreadable.
    return "; ".join(line for line in lines if line and not line.startswith("For further information"))
