"""How the app is deployed and hosted: azd, regions, scale, identity, and locks."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from tests.infra import application
from tests.infra.bicep.template import Template, named, properties_in, text_of, walk, within
from tests.infra.bicep.values import at, items_of, shown, type_of
from tests.infra.infrastructure import Environment, Infrastructure
from tests.infra.policies import of_environments, of_templates, policy

#: The groups of functions that scale together; every other function is a group of its own.
_GROUPS = {"httpTrigger": "http", "orchestrationTrigger": "durable"}

#: The resources that contain data, and may be locked.
_LOCKED = (
    "Microsoft.EventHub/namespaces",
    "Microsoft.KeyVault/vaults",
    "Microsoft.ServiceBus/namespaces",
    "Microsoft.Storage/storageAccounts",
)


@of_environments
def scale_fits_the_functions(environment: Environment) -> Iterator[str]:
    """Require existing always-ready groups, and that one caller may have all requests of an instance.

    Azure refuses fewer than two instances of a group in zones. A caller with fewer requests than an instance
    answers at once would never cause a second instance.
    """
    scale = environment.site.at("properties", "functionAppConfig", "scaleAndConcurrency")
    functions = application.functions(roles=environment.roles)
    kinds = {each["type"] for its in functions.values() for each in its}
    groups = {_GROUPS[kind] for kind in _GROUPS.keys() & kinds} | {f"function:{name}" for name in functions}
    least = 2 if environment.parameters.get("zoneRedundant") else 1
    for each in items_of(at(scale, "alwaysReady")):
        name, count = at(each, "name"), at(each, "instanceCount")
        if name not in groups or not isinstance(count, int) or count < least:
            yield f"{count} instances of the group {name} are always ready"
    at_once = at(scale, "triggers", "http", "perInstanceConcurrency")
    if at_once is None or environment.settings.get("REQUESTS_IN_FLIGHT") != str(at_once):
        yield f"REQUESTS_IN_FLIGHT must be perInstanceConcurrency, {at_once}"


@of_environments
def durable_scheduler_takes_the_identity(environment: Environment) -> Iterator[str]:
    """Require the connection by managed identity, as the documentation says."""
    connection = shown(environment.settings.get("DURABLE_TASK_SCHEDULER_CONNECTION_STRING"))
    parts = dict(part.partition("=")[::2] for part in connection.split(";"))
    if environment.is_scheduled and (
        parts.keys() != {"Endpoint", "Authentication", "ClientID"}
        or parts["Authentication"] != "ManagedIdentity"
    ):
        yield "the scheduler must be reached by managed identity"


@of_environments
def data_is_locked_as_chosen(environment: Environment) -> Iterator[str]:
    """Require locks exactly where they are asked for: they hinder `azd down`."""
    locks = environment.of("Microsoft.Authorization/locks")
    locked = sorted(type_of(lock.at("scope")) for lock in locks)
    with_data = [each.type for kind in _LOCKED for each in environment.of(kind)]
    if locked != (with_data if environment.parameters.get("locked") else []):
        yield f"locks are on {locked}"


@policy
def regions_are_listed(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that azd offers a list of regions, and that those with zones are among them."""
    deployment = infrastructure.environments[0].deployment
    decorators = deployment.template.parameters["location"].decorators
    offered = {text_of(each).strip("'") for node in decorators.get("allowed", ()) for each in named(node)}
    missing = sorted({*map(str, items_of(deployment.value_of("regionsWithZones")))} - offered)
    if missing:
        yield f"location does not offer {missing}"
    metadata = "".join(text_of(each) for each in decorators.get("metadata", ()))
    if "".join(metadata.split()) != "{azd:{type:'location'}}":
        yield "location must be marked for azd"


@of_templates
def deployments_can_be_repeated(template: Template) -> Iterator[str]:
    """Require that nothing depends on the date or on chance: deployed resources must not change."""
    for name in {"utcNow", "newGuid"} & {text_of(node) for node in walk(template.root)}:
        yield f"{name} returns another value in each deployment"


@policy
def deployments_have_names_of_their_own(infrastructure: Infrastructure) -> Iterator[str]:
    """Require different deployment names for all modules: the second of two would replace the first."""
    names = [
        text_of(value)
        for template in infrastructure.templates
        for module in template.modules.values()
        for name, value in properties_in(module.body)
        if name == "name" and not within(value, "params")
    ]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is the name of {names.count(name)} modules"


@policy
def azd_finds_the_deployed_resources(infrastructure: Infrastructure) -> Iterator[str]:
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
        if tags != (["app"] if environment.is_only_app else list(services)):
            yield f"{environment.name}: tags azd-service-name must be the services of azure.yaml"
