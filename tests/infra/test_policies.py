"""The templates comply with every policy, and each policy refuses a template that violates it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copy, copytree
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from functions.agents.agent_catalog import setting_of
from functions.http.access import Role
from functions.services.service import SERVICES_PATH
from functions.settings import Settings
from functions.workflows.registry import FOLDERS, sample_services
from local import queue_list
from tests.infra.application import REGISTRATIONS
from tests.infra.azure import policies as azure
from tests.infra.azure.published import FOLDER, listed, resource_type, resource_types
from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.expressions import BUILTINS, evaluate
from tests.infra.bicep.template import Declaration, read_template
from tests.infra.bicep.values import Unresolved, Value
from tests.infra.infrastructure import REPOSITORY, REQUIRED, Infrastructure
from tests.infra.policies import (
    POLICIES,
    Policy,
    access,
    form,
    hosting,
    network,
    properties,
    secrets,
    settings,
    storage,
    watching,
)

_GIVEN = "alertWebhookInVault: bases[index].outputs.alertWebhookInVault"
_MOST = "@minValue(40)\n@maxValue(1000)\nparam maximumInstances"
_READY = "param alwaysReadyInstances"
_HTTP2 = "      http20Enabled: true\n"
#: A policy, then an edit for each of its conditions: file, text, replacement. A name alone is a module's.
_TABLE: Sequence[Policy | tuple[str, str, str]] = (
    properties.properties_have_required_values,
    ("storage-account", "allowSharedKeyAccess: false", "allowSharedKeyAccess: true"),
    ("function-app", "minTlsVersion: '1.2'", "minTlsVersion: '1.1'"),
    ("function-app", "allowedOrigins: []", "allowedOrigins: ['*']"),
    ("vault", "private ? 'Disabled' : 'Enabled'", "'Enabled'"),
    ("function-app", "name: 'FC1'", "name: 'Y1'"),
    ("function-app", "'UserAssignedIdentity'", "'SystemAssignedIdentity'"),
    ("function-app", "    zoneRedundant: zoneRedundant\n", ""),
    ("vault", "purgeProtection ? true : null", "purgeProtection"),
    properties.passwords_are_off_for_ftp_and_scm,
    ("function-app", "name: 'scm'", "name: 'ftp'"),
    access.each_app_has_exactly_the_roles_that_it_needs,
    ("access", "app.readsHub && useEventHub ?", "useEventHub ?"),
    ("roles", "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39", "090c5cfd-751d-490a-894a-3ce6f1109419"),
    ("access", "scope: queue[index]", "scope: namespace"),
    ("access", "    principalId: principalId", "    principalId: deployer().objectId"),
    ("access", "contains(app.receives, ", "contains(app.sends, "),
    ("access", "if (contains(app.sends, kindOf(each.name))) ", ""),
    ("roles", "? 'agent-requests'", "? 'notices'"),
    ("access", "table: each })\n)", "table: 'Tasks' })\n)"),
    ("access", "each => { account: 1", "each => { account: 0"),
    ("applications", "isWhole: isWhole", "isWhole: true"),
    ("names", "'id-${token}-${mark}'", "'id-${token}'"),
    ("infra/queues.json", '"name": "agent-replies"', '"name": "agent-answers"'),
    ("access", "if (app.taskHub && useScheduler)", "if (app.http && useScheduler)"),
    access.roles_file_says_what_the_code_does,
    # It shows with an Agent behind a queue that calls a sample service: that of the sample `orders`.
    *[("infra/roles.json", '"agentsOfBothWays": []', '"agentsOfBothWays": ["payment"]')]
    * ("orders" in FOLDERS),
    ("infra/roles.json", '"receives": ["agent-requests"]', '"receives": []'),
    ("infra/roles.json", '"http": false', '"http": true'),
    network.apps_send_through_their_network,
    ("applications", "network.?outputs.?appSubnetIds[index] ?? ''", "''"),
    ("applications", "app.service == 'agents' && ", ""),
    ("applications", "? agentsSubnetId :", "? '' :"),
    properties.sign_in_guards_all_but_health,
    ("sign-in", "'Return401'", "'AllowAnonymous'"),
    ("sign-in", "'/api/health'", "'/api/*'"),
    ("sign-in", "${tenant().tenantId}/v2.0", "common/v2.0"),
    secrets.keys_are_never_read,
    ("service-bus", "'${namespace.name}.servicebus.windows.net'", "namespace.listKeys().primaryKey"),
    secrets.secrets_are_in_secure_places_only,
    ("vault", "webhookUrl.?properties.secretUriWithVersion ?? ''", "alertWebhookUrl"),
    ("monitoring", "= component.id", "= component.properties.ConnectionString"),
    ("vault", "servicesKey.?properties.secretUriWithVersion ?? (", "sampleServicesKey ?? ("),
    ("applications", _GIVEN, "alertWebhookInVault: alertWebhookUrl"),
    ("infra/main.bicep", "@secure()\n", ""),
    secrets.secure_parameters_are_named_and_kept,
    ("vault", "webhookUrl.?properties.secretUriWithVersion ?? ''", "empty(alertWebhookUrl) ? '' : 'some'"),
    ("app-settings", "alertWebhookInVault", "alertWebhookSecretUri"),
    secrets.webhook_is_read_from_the_vault,
    ("applications", _GIVEN, "alertWebhookInVault: ''"),
    storage.queues_are_those_of_the_list,
    ("service-bus", "for each in queues", "for each in [queues[0], queues[1]]"),
    ("service-bus", "properties: each.properties", "properties: {}"),
    ("infra/queues.json", '"requiresDuplicateDetection": true', '"requiresDuplicateDetection": false'),
    ("infra/queues.json", '"maxDeliveryCount": 10,', ""),
    storage.hubs_are_those_of_the_list,
    ("event-hubs", "partitionCount: each.partitionCount", "partitionCount: 4"),
    ("event-hubs", "parent: hub[each.hub]", "parent: namespace"),
    ("infra/hubs.json", '"ingestion"', '"$Default"'),
    ("infra/main.bicep", "param eventHub bool = false", "param eventHub bool = true"),
    storage.tables_are_declared,
    ("backing-services", "['Tasks', 'Rejected']", "['Tasks']"),
    ("infra/main.bicep", "sampleServices ? sampleTables : []", "sampleTables"),
    storage.state_is_replicated_as_chosen,
    ("infra/main.bicep", "param redundancy string = 'ZRS'", "param redundancy string = 'LRS'"),
    ("backing-services", "name: names.stateStorage", "name: names.agentStorage"),
    settings.settings_are_those_that_are_read,
    ("application-settings", "  SKEW_SECONDS: string(application.?skewSeconds ?? 5)\n", ""),
    ("app-settings", "servesQueues && contains(ofQueued, each.key)", "servesQueues"),
    ("application-settings", "  STATE_SHARDS:", "  FUNCTIONS_WORKER_RUNTIME: 'python'\n  STATE_SHARDS:"),
    ("app-settings", "app.readsHub && !empty(eventHubsHostName) ? eventHubSettings : {}", "{}"),
    ("app-settings", "empty(app.tables) ? {} : ", ""),
    ("app-settings", "ServiceBusConnection__", "ServiceBus__"),
    settings.application_starts_with_its_settings,
    ("application-settings", "?? '60,300,900'", "?? 'a while'"),
    ("application-settings", "supervisorThreshold ?? 3", "supervisorThreshold ?? 4"),
    settings.agents_call_the_samples,
    ("app-settings", "${servicesUrl}/drones", "${servicesUrl}/drone"),
    ("app-settings", "'keyvault'", "'blob'"),
    ("vault", "'function--services--agents'", "'function--service--agents'"),
    ("vault", "secretUriWithVersion", "secretUri"),
    settings.references_to_secrets_name_a_version,
    ("vault", "webhookUrl.?properties.secretUriWithVersion", "webhookUrl.?properties.secretUri"),
    settings.callers_are_identified_by_sign_in_only,
    ("app-settings", "signIn ? 'easyauth' : 'keys'", "'easyauth'"),
    ("applications", "signIn: !empty(signInClientId)", "signIn: false"),
    settings.references_are_set,
    ("host.json", '"SchedulerAgentSupervisor"', '"%TASK_HUB%"'),
    settings.host_json_fits_the_durable_backend,
    ("host.json", '"type": "AzureStorage"', '"type": "azureManaged"'),
    ("app-settings", "durableTask__storageProvider__type", "durableTask__storage__type"),
    ("app-settings", "connectionStringName: 'DURABLE_TASK", "connectionStringName: 'DURABLE"),
    ("app-settings", "app.taskHub && ", ""),
    form.everything_is_described,
    ("service-bus", "@description('Name of the namespace.')\n", ""),
    ("application-settings", "  @description('Recoveries without an extra wait.')\n", ""),
    form.numbers_are_bounded,
    ("infra/main.bicep", f"@minValue(0)\n@maxValue(20)\n{_READY}", _READY),
    form.bounds_hold_in_modules,
    ("function-app", _MOST, "@minValue(41)\n@maxValue(1000)\nparam maximumInstances"),
    ("function-app", _MOST, "@minValue(40)\n@maxValue(999)\nparam maximumInstances"),
    form.files_are_short_and_local,
    ("roles", "@export()\n", "\n" * 300 + "@export()\n"),
    ("watching/watching", "'budget.bicep'", "'br/public:avm/res/consumption/budget:0.3.5'"),
    form.every_file_is_used,
    ("watching/watching", "'budget.bicep'", "'../identity.bicep'"),
    form.every_parameter_is_used,
    ("infra/main.bicep", "var useScheduler =", "var leftOver = 1\nvar useScheduler ="),
    form.each_type_has_one_version,
    ("storage-account", "storageAccounts@2026-04-01", "storageAccounts@2021-01-01"),
    form.names_are_declared,
    ("service-bus", "sku: {\n    name: tier", "sku: {\n    name: tiers"),
    ("backing-services", "concat(stateTables", "concatenate(stateTables"),
    form.imported_names_are_exported,
    ("roles", "@export()\n", ""),
    form.modules_are_called_with_their_parameters,
    ("infra/main.bicep", "    sampleServices: sampleServices\n", ""),
    ("infra/main.bicep", "    instanceMemory: instanceMemory\n", "    memory: instanceMemory\n"),
    ("applications", "bases[index].outputs.vaultUri", "bases[index].outputs.vaultUrl"),
    properties.flex_consumption_supports_every_property,
    ("function-app", _HTTP2, f"{_HTTP2}      ftpsState: 'Disabled'\n"),
    hosting.deployments_can_be_repeated,
    ("infra/main.bicep", "param budgetStart string = ''", "param budgetStart string = utcNow('yyyy-MM-01')"),
    hosting.deployments_have_names_of_their_own,
    ("infra/main.bicep", "name: 'watching'", "name: 'network'"),
    network.private_endpoints_are_deployed_one_by_one,
    ("private-endpoints", "@batchSize(1)\n", ""),
    hosting.azd_finds_the_deployed_resources,
    ("infra/main.bicep", "'azd-env-name'", "'environment'"),
    ("azure.yaml", "  app:", "  api:"),
    ("azure.yaml", "    condition: ${ROLES_SPLIT}\n", ""),
    hosting.scale_fits_the_functions,
    ("function-app", "name: 'durable'", "name: 'scheduler'"),
    ("function-app", "zoneRedundant ? max(alwaysReadyHttpInstances, 2) : ", ""),
    ("app-settings", "string(requestsAtOnce)", "'200'"),
    access.apps_have_resources_of_their_own,
    ("function-app", "    keyVaultReferenceIdentity: identityId\n", ""),
    ("applications", "identityClientId: bases[index]", "identityClientId: bases[0]"),
    ("applications", "appSubnetIds[index]", "appSubnetIds[0]"),
    ("names", "'plan-${token}-${mark}'", "'plan-${token}'"),
    hosting.durable_scheduler_takes_the_identity,
    ("app-settings", "Authentication=ManagedIdentity", "Authentication=AAD"),
    hosting.data_is_locked_as_chosen,
    ("applications", "if (locked)", "if (purgeProtection && false)"),
    hosting.regions_are_listed,
    ("regions", "'australiaeast'", "'australiaest'"),
    ("infra/main.bicep", "type: 'location'", "type: 'region'"),
    watching.alerts_notify_the_operators,
    ("watching/log-alerts", "          alert.posted ? mailGroupId : actionGroupId\n", ""),
    watching.alerts_keep_their_names,
    ("infra/main.bicep", "names.alerts", "applications.outputs.names[0]"),
    watching.operations_are_logged,
    ("app-diagnostics", "'AuditEvent'", "'AuditEvents'"),
    ("diagnostics", "scope: tables[number]", "scope: serviceBus"),
    ("backing-services", "hasAgentStorage ? [names.agentStorage] : []", "[]"),
    watching.logs_are_bounded_and_actions_kept,
    ("backing-services", "logs.?dailyGigabytes ?? 10", "-1"),
    ("monitoring", "name: 'AppEvents'", "name: 'AppEvent'"),
    network.app_subnets_are_delegated,
    ("network", "Microsoft.App/environments", "Microsoft.Web/serverFarms"),
    network.private_addresses_are_found,
    ("private-endpoints", "'privatelink.vaultcore.azure.net'", "'privatelink.vault.azure.net'"),
    ("private-endpoints", "zones[target.group]", "zones.blob"),
    network.endpoints_exist_for_the_services_of_apps,
    ("app-base", "group: 'queue'", "group: 'table'"),
    ("app-base", "hostStorage.outputs.id, group: 'blob'", "vault.outputs.id, group: 'blob'"),
    network.endpoints_keep_their_names,
    ("app-base", "pe-host-queue${own.suffix}", "pe-host-queue"),
    azure.resources_fit_their_types,
    ("storage-account", "supportsHttpsTrafficOnly", "supportHttpsTrafficOnly"),
    ("durable-scheduler", "    ipAllowlist: private ? [] : ['0.0.0.0/0']\n", ""),
    ("infra/main.bicep", "targetScope = 'subscription'", "targetScope = 'resourceGroup'"),
    azure.properties_that_are_read_exist,
    ("function-app", "app.properties.defaultHostName", "app.properties.defaultHostname"),
    ("vault", "secretUriWithVersion", "secretUriWithVersions"),
    azure.versions_are_the_newest,
    ("service-bus", "@2026-01-01", "@2024-01-01"),
    azure.queries_name_tables_and_columns,
    ("infra/queries/sweeps.kql", "startswith", "startswith Messages and Message startswith"),
    ("infra/queries/failed-requests.kql", "AppRequests", "AppRequest"),
    ("infra/workbook/workbook.json", "by Workflow,", "by Workflows,"),
    ("infra/modules/watching/alerts.json", '"OldestSeconds"', '"OldestSecond"'),
    azure.metrics_exist,
    ("infra/modules/watching/alerts.json", '"ActiveMessages"', '"ActiveMessage"'),
    ("watching/metric-alerts", "'EntityName'", "'QueueName'"),
    ("infra/modules/watching/alerts.json", '"aggregation": "Minimum"', '"aggregation": "Total"'),
    ("infra/workbook/workbook.json", "namespaces--ActiveMessages", "namespaces--Active"),
    azure.settings_of_the_host_exist,
    ("app-settings", "AzureWebJobsStorage__blobServiceUri", "AzureWebJobsStorage__blobUri"),
    ("app-settings", "  AUTH_MODE:", "  FUNCTIONS_WORKER_RUNTIME: 'python'\n  AUTH_MODE:"),
)


def _violations() -> Iterator[Any]:
    policy: Policy | None = None
    for row in _TABLE:
        if callable(row):
            policy = row
            continue
        assert policy is not None
        name, old, new = row
        file = name if "." in name else f"infra/modules/{name}.bicep"
        edit = (new or f"without {old}").strip().splitlines()[0]
        yield pytest.param(policy, file, old, new, id=f"{policy.__name__}: {edit}")


_INFRASTRUCTURE = Infrastructure(REPOSITORY)


def _skip_unless_published(policy: Policy) -> None:
    """Skip a policy whose types or names the folder lacks. In CI, the folder must exist."""
    if policy.__module__ == azure.__name__ and not FOLDER.is_dir():
        reason = f"not checked: Azure's types and names, as {FOLDER} is absent (make azure-types)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    if policy in azure.NAMES and listed(azure.NAMES[policy]) is None:
        pytest.skip(f"not checked: {azure.NAMES[policy]}, which {FOLDER.name} lacks")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_templates_comply_with_the_policy(policy: Policy) -> None:
    """No template violates the policy."""
    _skip_unless_published(policy)
    assert list(policy(_INFRASTRUCTURE)) == []


@pytest.mark.parametrize(("policy", "file", "old", "new"), [*_violations()])
def test_broken_template_is_refused(policy: Policy, file: str, old: str, new: str, tmp_path: Path) -> None:
    """The policy reports a copy of the templates with one edit of a file, from `old` to `new` throughout."""
    _skip_unless_published(policy)
    copytree(REPOSITORY / "infra", tmp_path / "infra")
    for name in ("azure.yaml", "host.json", "local.settings.sample.json"):
        copy(REPOSITORY / name, tmp_path / name)
    path = tmp_path / file
    text = path.read_text()
    assert old in text, f"{file} does not contain '{old}'"
    path.write_text(text.replace(old, new))
    assert next(policy(Infrastructure(tmp_path)), None) is not None


def test_every_policy_finds_a_violation() -> None:
    """There is a violation of each policy."""
    assert {row for row in _TABLE if callable(row)} == {*POLICIES}


@pytest.mark.parametrize("name", resource_types(_INFRASTRUCTURE))
def test_resource_type_is_published(name: str) -> None:
    """A type that the folder lacks is not checked, and is named."""
    if resource_type(name) is None:
        pytest.skip(f"not checked: {name}, which {FOLDER.name} lacks")


def test_template_accepts_no_number_that_stops_the_start() -> None:
    """Azure refuses it before anything is deployed."""
    template = (REPOSITORY / "infra/modules/application-settings.bicep").read_text(encoding="utf-8")
    for decorators, name in re.findall(r"((?:\s*@\w+\(.*\)\n)+)\s*(\w+): int\?", template):
        field = Settings.model_fields[re.sub(r"([A-Z])", r"_\1", name).lower()]
        bounds = {"min": -(2**31), "max": 2**31 - 1}
        bounds |= {end: int(value) for end, value in re.findall(r"@(min|max)Value\((-?\d+)\)", decorators)}
        accepted: Any = Annotated[field.annotation, *field.metadata]
        TypeAdapter(list[accepted]).validate_python([*bounds.values()])


@pytest.mark.parametrize(
    ("hub", "days", "spare"), [(True, 30, 22 * 24), (True, 8, 0), (True, 7, -24), (False, 1, None)]
)
def test_tasks_are_kept_longer_than_events(*, hub: bool, days: int, spare: int | None) -> None:
    """By a day at least, for replays: negative hours are refused. Without a hub, they are null."""
    parameters: dict[str, Value] = {**REQUIRED, "eventHub": hub, "application": {"retentionDays": days}}
    planned = Deployment(REPOSITORY / "infra/main.bicep", parameters).deployments()
    [module] = [each for each in planned if each.template.path.stem == "backing-services"]
    assert module.value_of("spareHours") == spare
    assert module.value_of("useEventHub") is hub
    assert "minValue" in module.template.parameters["spareHours"].decorators


#: The functions in parameter files, as if no environment variable were set.
_FUNCTIONS: dict[str, Value] = {
    **BUILTINS,
    "readEnvironmentVariable": lambda name, *default: default[0] if default else Unresolved(name),
    "bool": lambda text: text == "true",
    "int": int,
}


def test_parameter_file_has_the_defaults_of_the_template(tmp_path: Path) -> None:
    """Without any `azd env set`. Required parameters come from the variables that azd always sets."""
    text = (REPOSITORY / "infra/main.bicepparam").read_text(encoding="utf-8")
    path = tmp_path / "main.bicep"
    # The grammar reads only templates, and these have variables.
    path.write_text(re.sub(r"(?m)^param ", "var ", text).replace("using 'main.bicep'", ""))
    declared = read_template(REPOSITORY / "infra/main.bicep").parameters
    values = {name: _value(each) for name, each in read_template(path).variables.items()}
    required = {name for name, each in declared.items() if each.value is None}
    defaults = {name: _value(declared[name]) for name in values if name not in required}
    azd = {"environmentName": Unresolved("AZURE_ENV_NAME"), "location": Unresolved("AZURE_LOCATION")}
    assert values == defaults | azd
    assert required == azd.keys()


def _value(declared: Declaration) -> Value:
    assert declared.value is not None
    return evaluate(declared.value, _FUNCTIONS.get)


def test_app_roles_are_those_of_the_application() -> None:
    """Submitter, Operator and those that steps of registered workflows name, for people and for programs."""
    roles = _INFRASTRUCTURE.json("infra/app-roles.json")
    specs = [spec for each in REGISTRATIONS for version in each.versions for spec in version.specs]
    assert {role["value"] for role in roles} == {*Role, *(spec.role for spec in specs if spec.role)}
    assert all(set(role["allowedMemberTypes"]) == {"Application", "User"} for role in roles)
    assert len({role["id"] for role in roles}) == len(roles)


def test_each_sample_service_is_called_by_an_agent_of_its_workflow() -> None:
    """So that a workflow with sample services runs on this machine without any setting.

    In Azure its table is declared: the application's identity need not create tables.
    """
    values = _INFRASTRUCTURE.json("local.settings.sample.json")["Values"]
    for registration in REGISTRATIONS:
        addresses = [values.get(setting_of(agent, "URL"), "") for agent in registration.agent_names]
        called = {address.partition(f"{SERVICES_PATH}/")[2] for address in addresses}
        assert {service.name for service in registration.services} <= called
    declared = {agent.table for agent in _INFRASTRUCTURE.sampled_agents}
    assert {service.table for service in sample_services(REGISTRATIONS)} <= declared


def test_lists_of_queues_follow_from_the_workflows() -> None:
    """Bicep and Service Bus emulators read them."""
    outdated = [str(path) for path, text in queue_list.files().items() if path.read_text("utf-8") != text]
    assert outdated == [], "run: make queues"
