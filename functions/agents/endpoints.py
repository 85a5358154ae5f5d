"""Where the remote service of each Agent is, and what it asks its callers for, as the settings say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr, ValidationError, create_model

from functions.connections import Environment
from functions.pattern.definition import Registry
from functions.pattern.errors import SettingsError
from functions.pattern.states import Way
from functions.roles import AppRole
from functions.settings import Destination, faults_of

KEY_HEADER = "x-functions-key"

#: Headers that say what the request is; a key in their place would break it.
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "content-type", "host", "idempotency-key", "traceparent", "tracestate"}
    | {"transfer-encoding"}
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A remote service's address, key or token scope, and calls at once over all instances (None: any)."""

    address: str
    key: SecretStr | None = None
    header: str = KEY_HEADER
    scope: str | None = None
    at_once: int | None = None


def url_setting(agent: str) -> str:
    """Name the setting that holds the address of the service behind an Agent, such as `PAYMENT_URL`."""
    return _setting(agent, "URL")


def _setting(agent: str, part: str) -> str:
    name = agent.upper().replace("-", "_")
    return f"AGENT_{name}_{part}" if part == "AT_ONCE" else f"{name}_{part}"


def _fits_a_header(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if not text.isascii() or not text.isprintable():
        raise ValueError("a line break, or another character that no header can hold")
    return key


def _is_free(header: str) -> str:
    if header.lower() in _OWN_HEADERS:
        raise ValueError("every request has a header of this name")
    return header


#: The settings of each Agent, by how their names end: how they are read, and their default.
_FIELDS: dict[str, tuple[Any, Any]] = {
    "URL": (Destination, ...),
    "KEY": (Annotated[SecretStr, AfterValidator(_fits_a_header)] | None, None),
    "HEADER": (Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$"), AfterValidator(_is_free)] | None, None),
    "SCOPE": (Annotated[str, Field(pattern=r"^[!-~]+$")] | None, None),
    "AT_ONCE": (Annotated[int, Field(ge=1, le=100_000)] | None, None),
}

#: What completes "set it to …".
_MEANINGS = {
    "URL": "the address of the service, such as https://pay.example.com/payments",
    "KEY": "the key that the service asks for",
    "HEADER": "the name of the header that takes the key, such as Ocp-Apim-Subscription-Key",
    "SCOPE": "the scope of the service's tokens, such as api://payments/.default",
    "AT_ONCE": "the calls of the service that may be in flight over all instances, such as 10",
}


def known_here(
    registry: Registry, elsewhere: AbstractSet[str], roles: AbstractSet[AppRole] = frozenset(AppRole)
) -> frozenset[str]:
    """Name the Agents that an application with such `roles` makes. Raises `SettingsError`.

    The Supervisor does not call them; they validate the results that operators enter.
    """
    queued = registry.queued_agents
    for unknown in sorted(elsewhere - queued):
        known = ", ".join(sorted(queued)) or "none"
        raise SettingsError(
            f"setting AGENTS_ELSEWHERE names '{unknown}': name Agents behind queues, which are {known}"
        )
    every = AppRole.SUPERVISOR in roles
    ways = {
        Way.ACTIVITY: every or AppRole.SCHEDULER in roles,
        Way.QUEUE: every or AppRole.AGENTS in roles,
    }
    steps = (step for workflow in registry for step in workflow.steps)
    return frozenset(step.agent for step in steps if ways.get(step.via)) - elsewhere


def load_endpoints(agents: Iterable[str]) -> dict[str, Endpoint]:
    """Read the settings of each Agent's service. Raises `SettingsError`, one line that names all faults."""
    names = sorted(agents)
    fields: dict[str, Any] = {
        _setting(name, part): field for name in names for part, field in _FIELDS.items()
    }
    try:
        read = create_model("Endpoints", __base__=Environment, **fields)()
    except ValidationError as error:
        raise SettingsError("; ".join(_faults(error))) from None
    endpoints: dict[str, Endpoint] = {}
    for name in names:
        address, key, header, scope, at_once = (getattr(read, _setting(name, part)) for part in _FIELDS)
        endpoints[name] = Endpoint(str(address), key, header or KEY_HEADER, scope, at_once)
    misfits = "; ".join(text for name in names for text in _misfits(read, name))
    if misfits:
        raise SettingsError(misfits)
    return endpoints


def _misfits(read: Environment, name: str) -> Iterator[str]:
    key, header, scope = (_setting(name, part) for part in ("KEY", "HEADER", "SCOPE"))
    if getattr(read, scope) is not None and getattr(read, key) is not None:
        yield f"settings {key} and {scope} are both set: a service gets a key or a token, so remove one"
    elif getattr(read, header) is not None and getattr(read, key) is None:
        yield f"setting {header} is set without {key}: set the key, or remove the header"


def _faults(error: ValidationError) -> Iterator[str]:
    """Name the addresses that are missing together, and every other fault with its own fix."""
    faults = faults_of(error)
    missing = [name for name, what in faults if what == "is missing"]
    if len(missing) > 1:
        yield f"settings {', '.join(missing)} are missing: set each to {_MEANINGS['URL']}"
    for name, what in faults:
        if name not in missing or len(missing) == 1:
            meaning = next(text for part, text in _MEANINGS.items() if name.endswith(f"_{part}"))
            yield f"setting {name} {what}: set it to {meaning}"
