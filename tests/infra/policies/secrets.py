"""Secrets are stored in the vault, the webhook's address also in the action group, and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.infra.bicep.template import text_of, walk
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import CANARY, CANARY_KEY, Infrastructure

#: Functions that return a key, a password or a connection string that contains one.
_GIVES_SECRETS = re.compile(r"^list[A-Z]\w*$|^getSecret$")

_SOUNDS_SECRET = re.compile(r"password|pwd|secret|accountkey|acctkey", re.IGNORECASE)

#: The alert webhook's address and the key of the sample services, wherever they are passed on.
_SECRET = (CANARY, CANARY_KEY)

#: The resources that may contain them.
_KEEPS_SECRETS = {"Microsoft.KeyVault/vaults/secrets", "Microsoft.Insights/actionGroups"}


def keys_are_never_read(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that no template calls `listKeys` or a similar function, so that no key can leak."""
    for template in infrastructure.templates:
        for node in walk(template.root):
            name = text_of(node).split(".")[-1]
            if node.type in {"identifier", "property_identifier"} and _GIVES_SECRETS.match(name):
                yield f"{template.path.name}, line {node.start_point.row + 1}: {name} gives a secret"


def outputs_hold_no_secret(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that no output of any template contains a secret: the deployment history shows outputs."""
    for environment in infrastructure.environments:
        for deployment in environment.deployment.deployments():
            for name, value in deployment.outputs().items():
                if _holds_secret(value) or "ConnectionString" in _text(value):
                    yield f"{deployment.template.path.name}: output {name} holds a secret"


def outputs_use_no_secure_parameter(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that no output even mentions one (linter: outputs-should-not-contain-secrets)."""
    for template in infrastructure.templates:
        secure = {each.name for each in template.parameters.values() if "secure" in each.decorators}
        for output in template.outputs.values():
            mentioned = {text_of(node) for node in walk(output.value)} if output.value else set()
            for name in sorted(secure & mentioned):
                yield f"{template.path.name}: output {output.name} uses {name}"


def settings_hold_no_secret(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that only vault and action group contain a secret; the app's settings refer to the vault."""
    for environment in infrastructure.environments:
        for resource in environment.resources:
            if resource.type not in _KEEPS_SECRETS and _holds_secret(resource.body):
                yield f"{environment.name}: {resource.title} holds a secret itself"
        reference = environment.settings.get("ALERT_WEBHOOK_URL")
        given = environment.app["postsAlerts"] and CANARY in environment.parameters.values()
        if given and not _text(reference).startswith("@Microsoft.KeyVault("):
            yield f"{environment.name}: ALERT_WEBHOOK_URL must refer to the vault"


def secrets_are_secure_parameters(infrastructure: Infrastructure) -> Iterator[str]:
    """Require `@secure()` for each parameter that receives a secret: the history shows all others."""
    for environment in infrastructure.environments:
        for deployment in environment.deployment.deployments():
            for name, declared in deployment.template.parameters.items():
                if _holds_secret(deployment.value_of(name)) and "secure" not in declared.decorators:
                    yield f"{deployment.template.path.name}: parameter {name} must be @secure()"


def parameters_that_sound_secret_are_secure(infrastructure: Infrastructure) -> Iterator[str]:
    """Require `@secure()` for every parameter whose name says secret (linter: secure-secrets-in-params)."""
    for template in infrastructure.templates:
        for each in template.parameters.values():
            if _SOUNDS_SECRET.search(each.name) and "secure" not in each.decorators:
                yield f"{template.path.name}: parameter {each.name} must be @secure(), or have another name"


def _holds_secret(value: Value) -> bool:
    return any(secret in _text(value) for secret in _SECRET)


def _text(value: Value) -> str:
    match value:
        case str(text) | Unresolved(text):
            return text
        case _:
            return json.dumps(value, default=_text)
