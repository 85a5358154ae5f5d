"""What the platform requires of templates, but reports only when they are deployed."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from tests.infra.bicep.template import decorators_of, named, text_of, walk, within
from tests.infra.bicep.values import properties_of
from tests.infra.infrastructure import Infrastructure

#: Properties of `siteConfig` that are errors on Flex Consumption; some have moved to `functionAppConfig`.
_FLEX_REFUSES = {
    "alwaysOn",
    "ftpsState",
    "functionAppScaleLimit",
    "functionsRuntimeScaleMonitoringEnabled",
    "linuxFxVersion",
    "netFrameworkVersion",
    "preWarmedInstanceCount",
    "use32BitWorkerProcess",
    "windowsFxVersion",
}


def flex_consumption_supports_every_property(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that the app has no property that the plan does not support (ARM error 51021)."""
    for app in infrastructure.each("Microsoft.Web/sites"):
        for name in _FLEX_REFUSES & properties_of(app.at("properties", "siteConfig")).keys():
            yield f"{app.title}: {name} is refused on Flex Consumption"


def deployments_can_be_repeated(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that nothing depends on the date or on chance: what is there must not change."""
    for template in infrastructure.templates:
        for name in {"utcNow", "newGuid"} & {text_of(node) for node in walk(template.root)}:
            yield f"{template.path.name}: {name} gives another value with each deployment"


def deployments_have_names_of_their_own(infrastructure: Infrastructure) -> Iterator[str]:
    """Require different deployment names for all modules: the second of two would replace the first."""
    names = [
        text_of(named(node)[1])
        for template in infrastructure.templates
        for module in template.modules.values()
        for node in walk(module.body)
        if node.type == "object_property" and text_of(named(node)[0]) == "name" and not within(node, "params")
    ]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is the name of {names.count(name)} modules"


def private_endpoints_are_deployed_one_by_one(infrastructure: Infrastructure) -> Iterator[str]:
    """Require `@batchSize(1)`: two at once fail with ARM error StorageAccountOperationInProgress."""
    for template in infrastructure.templates:
        for resource in template.resources.values():
            if not resource.source.startswith("Microsoft.Network/privateEndpoints@"):
                continue
            declared = resource.body.parent
            size = decorators_of(declared).get("batchSize", ()) if declared is not None else ()
            if [text_of(number) for number in size] != ["1"]:
                yield f"{template.path.name}: {resource.name} must be deployed one by one"


def azd_finds_what_it_looks_for(infrastructure: Infrastructure) -> Iterator[str]:
    """Require the tags by which azd finds its resource group, and the app as the service of azure.yaml."""
    services = yaml.safe_load((infrastructure.folder / "azure.yaml").read_text())["services"]
    for name, service in services.items():
        wanted = {"project": ".", "language": "python", "host": "function"}
        if service != wanted | ({} if name == "app" else {"condition": "${ROLES_SPLIT}"}):
            yield f"azure.yaml: service {name} must be this folder, in Python, on Functions"
    for environment in infrastructure.environments:
        for group in environment.of("Microsoft.Resources/resourceGroups"):
            if group.at("tags", "azd-env-name") != environment.parameters["environmentName"]:
                yield f"{group.title}: tag azd-env-name must be the environment's name"
        tags = [app.at("tags", "azd-service-name") for app in environment.of("Microsoft.Web/sites")]
        if tags != (["app"] if environment.is_whole else list(services)):
            yield f"{environment.name}: tags azd-service-name must be the services of azure.yaml"
