"""The Agents that a process serves: settings of their services, checks at start, and their making."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from aiohttp import ClientSession
from pydantic import AfterValidator, Field, SecretStr, ValidationError, create_model

from functions.agents.http_agent import HttpAgent, RemoteService, RestAgent
from functions.connections import Environment, SettingsError
from functions.core.definition.step_definition import Retry
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.record import StepSpec, StepType
from functions.messaging.queue_names import properties_of, requests_queue
from functions.service_credentials import BearerToken, Credential, HeaderKey, TokenIssuer
from functions.settings import Destination, faults_of

_log = logging.getLogger(__name__)

_KEY_HEADER = "x-functions-key"
#: Headers that each request has; a key under such a name would break it.
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "content-type", "host", "idempotency-key", "traceparent", "tracestate"}
    | {"transfer-encoding"}
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a remote service, its key or the scope of its tokens, and the calls of one instance."""

    address: str
    key: SecretStr | None = None
    header: str = _KEY_HEADER
    scope: str | None = None
    calls_at_once: int | None = None


def setting_of(agent: str, part: str) -> str:
    """Return the name of a setting of an Agent, such as `PAYMENT_URL` or `AGENT_PAYMENT_AT_ONCE`."""
    name = agent.upper().replace("-", "_")
    return f"AGENT_{name}_{part}" if part == "AT_ONCE" else f"{name}_{part}"


def _check_key(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if not text.isascii() or not text.isprintable():
        raise ValueError("a line break, or another character that no header can hold")
    return key


def _check_header(header: str) -> str:
    if header.lower() in _OWN_HEADERS:
        raise ValueError("every request has a header of this name")
    return header


_Key = Annotated[SecretStr, AfterValidator(_check_key)]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$"), AfterValidator(_check_header)]
_Scope = Annotated[str, Field(pattern=r"^[!-~]+$")]
_CallsAtOnce = Annotated[int, Field(ge=1, le=100_000)]
#: The settings of each Agent by the end of their names: type, default, and the completion of "set it to …".
_SETTINGS: Mapping[str, tuple[Any, Any, str]] = {
    "URL": (Destination, ..., "the address of the service, such as https://pay.example.com/payments"),
    "KEY": (_Key | None, None, "the key that the service requires"),
    "HEADER": (_Header, _KEY_HEADER, "the name of the key's header, such as Ocp-Apim-Subscription-Key"),
    "SCOPE": (_Scope | None, None, "the scope of the service's tokens, such as api://payments/.default"),
    "AT_ONCE": (_CallsAtOnce | None, None, "the calls of one instance under way at once, such as 10"),
}


def agents_here(
    registry: WorkflowRegistry, elsewhere: AbstractSet[str], *, serves_calls: bool, serves_queues: bool
) -> frozenset[str]:
    """Return the Agents that this process serves: those of calls, and those behind queues.

    `elsewhere` are Agents behind queues that other processes serve. Raises `SettingsError`.
    """
    for unknown in sorted(elsewhere - registry.queue_agents):
        known = ", ".join(sorted(registry.queue_agents)) or "none"
        raise SettingsError(
            f"setting AGENTS_ELSEWHERE names '{unknown}': name Agents behind queues, which are {known}"
        )
    served = {StepType.ACTIVITY: serves_calls, StepType.QUEUE: serves_queues}
    return frozenset(spec.agent for spec in _agent_specs(registry) if served.get(spec.type)) - elsewhere


def load_endpoints(agents: Iterable[str]) -> dict[str, Endpoint]:
    """Read the settings of each Agent's service. Raises `SettingsError`, one line that names all faults."""
    names = sorted(agents)
    fields: dict[str, Any] = {
        setting_of(name, part): (kind, default)
        for name in names
        for part, (kind, default, _) in _SETTINGS.items()
    }
    try:
        read = create_model("Endpoints", __base__=Environment, **fields)()
    except ValidationError as error:
        raise SettingsError("; ".join(_faults(error))) from None
    values = {name: [getattr(read, setting_of(name, part)) for part in _SETTINGS] for name in names}
    contradictions = "; ".join(text for name in names for text in _contradictions(read, name))
    if contradictions:
        raise SettingsError(contradictions)
    return {name: Endpoint(str(address), *others) for name, (address, *others) in values.items()}


def _contradictions(read: Environment, name: str) -> Iterator[str]:
    key, header, scope = (setting_of(name, part) for part in ("KEY", "HEADER", "SCOPE"))
    if getattr(read, scope) is not None and getattr(read, key) is not None:
        yield f"settings {key} and {scope} are both set: a service gets a key or a token, so remove one"
    elif header in read.model_fields_set and getattr(read, key) is None:
        yield f"setting {header} is set without {key}: set the key, or remove the header"


def _faults(error: ValidationError) -> Iterator[str]:
    """Yield the missing addresses together, and each other fault with its fix."""
    faults = faults_of(error)
    missing = [name for name, fault in faults if fault == "is missing"]
    if len(missing) > 1:
        yield f"settings {', '.join(missing)} are missing: set each to {_SETTINGS['URL'][2]}"
    for name, fault in faults:
        if name not in missing or len(missing) == 1:
            meaning = next(text for part, (_, _, text) in _SETTINGS.items() if name.endswith(f"_{part}"))
            yield f"setting {name} {fault}: set it to {meaning}"


def make_agents(
    endpoints: Mapping[str, Endpoint],
    classes: Mapping[str, type[HttpAgent]],
    *,
    now: Callable[[], datetime],
    session: Callable[[], ClientSession],
    once_session: Callable[[], ClientSession],
    issuer: TokenIssuer,
    retry: Retry | None = None,
) -> dict[str, HttpAgent]:
    """Return the Agent of each endpoint, a `RestAgent` unless `classes` has another one."""
    return {
        name: classes.get(name, RestAgent)(
            RemoteService(
                name=name,
                address=endpoint.address,
                now=now,
                session=session,
                once_session=once_session,
                credential=_credential_of(endpoint, issuer, now),
                retry=retry or Retry(),
            )
        )
        for name, endpoint in endpoints.items()
    }


def _credential_of(endpoint: Endpoint, issuer: TokenIssuer, now: Callable[[], datetime]) -> Credential | None:
    if endpoint.scope is not None:
        return BearerToken(endpoint.scope, issuer, now)
    return None if endpoint.key is None else HeaderKey(endpoint.header, endpoint.key)


def finders(registry: WorkflowRegistry, classes: Mapping[str, type[HttpAgent]]) -> frozenset[str]:
    """Return the gates of the Agents that can look up whether a step was done."""
    return frozenset(
        spec.gate for spec in _agent_specs(registry) if _defines(classes.get(spec.agent, RestAgent), "find")
    )


def check_agents(
    registry: WorkflowRegistry,
    classes: Mapping[str, type[HttpAgent]],
    here: Collection[str],
) -> None:
    """Check that the Agents that are served `here`, and the queues of all, can carry out each step.

    Raises `DefinitionError`. `WorkflowRegistry` checks that each call is shorter than a run.
    """
    for workflow in registry:
        for spec in workflow.specs:
            agent_class = classes.get(spec.agent, RestAgent)
            if spec.undo and spec.agent in here and not _defines(agent_class, "undo"):
                raise workflow.error(
                    f'step "{spec.name}": undo: its Agent "{spec.agent}" cannot undo: define'
                    f" {agent_class.__name__}.undo, or remove undo"
                )
            if spec.type is StepType.QUEUE:
                _check_queue(workflow, spec)


def _check_queue(workflow: Workflow[Any], spec: StepSpec) -> None:
    queue, seconds = requests_queue(spec.agent), spec.complete_within
    properties = properties_of(queue)
    if properties.time_to_live < seconds:
        raise workflow.error(
            f'step "{spec.name}": complete_within: {seconds:.0f} s is longer than the time to live of queue'
            f' "{queue}" ({properties.time_to_live:.0f} s): shorten it, or add the queue to QUEUES in'
            " functions/messaging/queue_names.py, and run make queues"
        )
    if seconds < 2 * properties.lock:
        text = (
            "step %s of %s: complete_within is %g s, less than twice the lock of its queue (%g s): a request"
        )
        text += " that is delivered again after a crash comes too late"
        _log.warning(text, spec.name, workflow.name, seconds, properties.lock)


def _agent_specs(registry: WorkflowRegistry) -> Iterator[StepSpec]:
    return (spec for workflow in registry for spec in workflow.specs if spec.agent)


def _defines(agent_class: type[HttpAgent], method: str) -> bool:
    return getattr(agent_class, method) is not getattr(HttpAgent, method)
