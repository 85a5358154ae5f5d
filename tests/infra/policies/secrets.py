"""Secrets are stored in the vault, the webhook's address also in the action group, and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.infra.bicep.template import Template, text_of, walk
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import CANARY, CANARY_KEY, Environment
from tests.infra.policies import of_environments, of_templates

#: Functions that return a key, a password or a connection string that contains one.
_RETURNS_SECRETS = re.compile(r"^list[A-Z]\w*$|^getSecret$")

_SOUNDS_SECRET = re.compile(r"password|pwd|secret|accountkey|acctkey", re.IGNORECASE)

#: The resources that may contain secrets.
_KEEPS_SECRETS = {"Microsoft.KeyVault/vaults/secrets", "Microsoft.Insights/actionGroups"}


@of_templates
def keys_are_never_read(template: Template) -> Iterator[str]:
    """Require that no template calls `listKeys` or a similar function, so that no key can leak."""
    for node in walk(template.root):
        name = text_of(node).split(".")[-1]
        if node.type in {"identifier", "property_identifier"} and _RETURNS_SECRETS.match(name):
            yield f"line {node.start_point.row + 1}: {name} returns a secret"


@of_environments
def secrets_are_in_secure_places_only(environment: Environment) -> Iterator[str]:
    """Require `@secure()` parameters, and no secret in outputs, which the deployment history shows."""
    for resource in environment.deployment.resources:
        if resource.type not in _KEEPS_SECRETS and _contains_secret(resource.body):
            yield f"{resource.title} contains a secret"
    for deployment in environment.deployment.deployments():
        for name, value in deployment.outputs().items():
            if _contains_secret(value) or "ConnectionString" in _text(value):
                yield f"{deployment.template.path.name}: output {name} contains a secret"
        for name, declared in deployment.template.parameters.items():
            if _contains_secret(deployment.value_of(name)) and "secure" not in declared.decorators:
                yield f"{deployment.template.path.name}: parameter {name} must be @secure()"


@of_templates
def secure_parameters_are_named_and_kept(template: Template) -> Iterator[str]:
    """Require `@secure()` for a name that says secret, and no output that mentions such a parameter.

    Linter: secure-secrets-in-params, outputs-should-not-contain-secrets.
    """
    secure = {each.name for each in template.parameters.values() if "secure" in each.decorators}
    for name in template.parameters.keys() - secure:
        if _SOUNDS_SECRET.search(name):
            yield f"parameter {name} must be @secure(), or have another name"
    for output in template.outputs.values():
        mentioned = {text_of(node) for node in walk(output.value)} if output.value else set()
        for name in sorted(secure & mentioned):
            yield f"output {output.name} uses {name}"


@of_environments
def webhook_is_read_from_the_vault(environment: Environment) -> Iterator[str]:
    """Require a reference to the vault in the app that posts alerts."""
    has_webhook = environment.app["postsAlerts"] and CANARY in environment.parameters.values()
    reference = _text(environment.settings.get("ALERT_WEBHOOK_URL"))
    if has_webhook and not reference.startswith("@Microsoft.KeyVault("):
        yield "ALERT_WEBHOOK_URL must refer to the vault"


def _contains_secret(value: Value) -> bool:
    return any(secret in _text(value) for secret in (CANARY, CANARY_KEY))


def _text(value: Value) -> str:
    match value:
        case str(text) | Unresolved(text):
            return text
        case _:
            return json.dumps(value, default=_text)
