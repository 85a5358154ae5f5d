"""Templates that violate a policy: for each, the policy and the edit that violates it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, copytree

from tests.infra.infrastructure import REPOSITORY, Infrastructure
from tests.infra.policies import (
    Policy,
    access,
    form,
    platform,
    references,
    secrets,
    settings,
    storage,
    transport,
)

_MAIN = "infra/main.bicep"
_ACCESS = "infra/modules/access.bicep"
_APP = "infra/modules/function-app.bicep"
_APP_BASE = "infra/modules/app-base.bicep"
_APP_SETTINGS = "infra/modules/app-settings.bicep"
_APPS = "infra/modules/applications.bicep"
_APPLICATION = "infra/modules/application-settings.bicep"
_BACKING = "infra/modules/backing-services.bicep"
_BUS = "infra/modules/service-bus.bicep"
_HUBS = "infra/modules/event-hubs.bicep"
_MONITORING = "infra/modules/monitoring.bicep"
_APPS_LIST = "infra/roles.json"
_QUEUES = "infra/queues.json"
_NAMES = "infra/modules/names.bicep"
_ROLES = "infra/modules/roles.bicep"
_SIGN_IN = "infra/modules/sign-in.bicep"
_STORAGE = "infra/modules/storage-account.bicep"
_VAULT = "infra/modules/vault.bicep"
_WATCHING = "infra/modules/watching/watching.bicep"


@dataclass(frozen=True, slots=True)
class Breach:
    """An edit of one file, from `old` to `new` throughout, that `policy` must refuse."""

    policy: Policy
    file: str
    old: str
    new: str

    def __str__(self) -> str:
        """Name the breach, for pytest."""
        edit = self.new or f"without {self.old}"
        return f"{self.policy.__name__}: {edit.strip().splitlines()[0]}"

    def made(self, folder: Path) -> Infrastructure:
        """Copy the templates to `folder`, and apply the edit."""
        return edited(folder, self.file, self.old, self.new)


def edited(folder: Path, file: str, old: str, new: str) -> Infrastructure:
    """Copy the templates to `folder`, and write `new` instead of `old` throughout one file."""
    copytree(REPOSITORY / "infra", folder / "infra")
    for name in ("azure.yaml", "host.json", "local.settings.sample.json"):
        copy(REPOSITORY / name, folder / name)
    path = folder / file
    text = path.read_text()
    assert old in text, f"{file} has no '{old}' to break"
    path.write_text(text.replace(old, new))
    return Infrastructure(folder)


def _access() -> Iterator[Breach]:
    keys = access.keys_and_passwords_are_off
    yield Breach(keys, _STORAGE, "allowSharedKeyAccess: false", "allowSharedKeyAccess: true")
    yield Breach(keys, _STORAGE, "    allowSharedKeyAccess: false\n", "")
    yield Breach(keys, _BUS, "disableLocalAuth: true", "disableLocalAuth: false")
    yield Breach(keys, _HUBS, "disableLocalAuth: true", "disableLocalAuth: false")
    yield Breach(keys, _MONITORING, "DisableLocalAuth: true", "DisableLocalAuth: false")
    yield Breach(keys, _MONITORING, "disableLocalAuth: true", "disableLocalAuth: false")
    yield Breach(keys, _VAULT, "enableRbacAuthorization: true", "enableRbacAuthorization: false")
    yield Breach(keys, _APP, "allow: false", "allow: true")
    yield Breach(access.passwords_are_off_for_ftp_and_scm, _APP, "name: 'scm'", "name: 'ftp'")
    public = access.nothing_is_public_in_storage
    yield Breach(public, _STORAGE, "allowBlobPublicAccess: false", "allowBlobPublicAccess: true")
    yield Breach(public, _STORAGE, "publicAccess: 'None'", "publicAccess: 'Blob'")
    yield Breach(access.every_role_is_assigned, _ACCESS, "app.writesHub && submitsToHub ?", "useEventHub ?")
    narrow, sender = access.roles_are_narrow, "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39"
    yield Breach(narrow, _ROLES, sender, "090c5cfd-751d-490a-894a-3ce6f1109419")
    yield Breach(narrow, _ROLES, sender, "58da3a78-0000-4000-8000-000000000000")
    yield Breach(narrow, _ACCESS, "scope: queue[index]", "scope: namespace")
    yield Breach(narrow, _VAULT, "scope: vault", "scope: resourceGroup()")
    yield Breach(narrow, _ACCESS, "    principalId: principalId", "    principalId: deployer().objectId")
    yield Breach(narrow, _ACCESS, "principalType: 'ServicePrincipal'", "principalType: 'User'")
    owner = access.owner_is_for_the_host_only
    yield Breach(owner, _ACCESS, "roles.storageTableDataContributor", "roles.storageBlobDataOwner")
    use = access.queues_may_be_used_as_the_code_does
    yield Breach(use, _ACCESS, "contains(app.receives, ", "contains(app.sends, ")
    yield Breach(use, _ACCESS, "if (contains(app.sends, kindOf(each.name))) ", "")
    yield Breach(use, _ROLES, "? 'agent-requests'", "? 'notices'")
    reached = access.tables_may_be_used_as_the_roles_say
    yield Breach(reached, _ACCESS, "table: each })\n)", "table: 'Tasks' })\n)")
    yield Breach(reached, _ACCESS, "each => { account: 1", "each => { account: 0")
    yield Breach(reached, _APPS, "isWhole: isWhole", "isWhole: true")
    yield Breach(reached, _NAMES, "'id-${token}-${mark}'", "'id-${token}'")
    said = access.roles_file_says_what_the_code_does
    yield Breach(said, _APPS_LIST, '"agentsOfBothWays": []', '"agentsOfBothWays": ["payment"]')
    yield Breach(said, _APPS_LIST, '"receives": ["agent-requests"]', '"receives": []')
    yield Breach(said, _APPS_LIST, '"tables": [],', '"tables": ["Tasks"],')
    yield Breach(said, _APPS_LIST, '"http": false', '"http": true')
    yield Breach(said, _APPS_LIST, '"writesHub": false', '"writesHub": true')
    yield Breach(use, _QUEUES, '"name": "agent-replies"', '"name": "agent-answers"')


def _transport() -> Iterator[Breach]:
    encrypted = transport.transport_is_encrypted
    yield Breach(encrypted, _STORAGE, "TLS1_2", "TLS1_0")
    yield Breach(encrypted, _STORAGE, "supportsHttpsTrafficOnly: true", "supportsHttpsTrafficOnly: false")
    yield Breach(encrypted, _BUS, "minimumTlsVersion: '1.2'", "minimumTlsVersion: '1.0'")
    yield Breach(encrypted, _HUBS, "minimumTlsVersion: '1.2'", "minimumTlsVersion: '1.0'")
    yield Breach(encrypted, _APP, "httpsOnly: true", "httpsOnly: false")
    yield Breach(encrypted, _APP, "minTlsVersion: '1.2'", "minTlsVersion: '1.1'")
    yield Breach(encrypted, _APP, "remoteDebuggingEnabled: false", "remoteDebuggingEnabled: true")
    yield Breach(encrypted, _APP, "allowedOrigins: []", "allowedOrigins: ['*']")
    closes, state = transport.private_network_closes_the_rest, "private ? 'Disabled' : 'Enabled'"
    for file in (_STORAGE, _BUS, _HUBS, _VAULT, "infra/modules/durable-scheduler.bicep"):
        yield Breach(closes, file, state, "'Enabled'")
    yield Breach(closes, _APPS, "network.?outputs.?appSubnetIds[index] ?? ''", "''")
    guards = transport.sign_in_guards_all_but_health
    yield Breach(guards, _SIGN_IN, "'Return401'", "'AllowAnonymous'")
    yield Breach(guards, _SIGN_IN, "'/api/health'", "'/api/*'")


def _secrets() -> Iterator[Breach]:
    asked = secrets.keys_are_never_read
    yield Breach(asked, _BUS, "'${namespace.name}.servicebus.windows.net'", "namespace.listKeys().primaryKey")
    shown = secrets.outputs_hold_no_secret
    yield Breach(
        shown,
        _VAULT,
        "webhookUrl.?properties.secretUriWithVersion ?? ''",
        "alertWebhookUrl",
    )
    yield Breach(shown, _MONITORING, "= component.id", "= component.properties.ConnectionString")
    yield Breach(shown, _VAULT, "servicesKey.?properties.secretUriWithVersion ?? (", "sampleServicesKey ?? (")
    used = secrets.outputs_use_no_secure_parameter
    yield Breach(
        used,
        _VAULT,
        "webhookUrl.?properties.secretUriWithVersion ?? ''",
        "empty(alertWebhookUrl) ? '' : 'some'",
    )
    held, given = (
        secrets.settings_hold_no_secret,
        "alertWebhookInVault: bases[index].outputs.alertWebhookInVault",
    )
    yield Breach(held, _APPS, given, "alertWebhookInVault: alertWebhookUrl")
    yield Breach(held, _APPS, given, "alertWebhookInVault: ''")
    secure = secrets.secrets_are_secure_parameters
    for file in (_MAIN, _APPS, _APP_BASE, _VAULT):
        yield Breach(secure, file, "@secure()\n", "")
    sounds = secrets.parameters_that_sound_secret_are_secure
    yield Breach(sounds, _APP_SETTINGS, "alertWebhookInVault", "alertWebhookSecretUri")


def _storage() -> Iterator[Breach]:
    declared = storage.every_listed_queue_is_declared
    yield Breach(declared, _BUS, "for each in queues", "for each in [queues[0], queues[1]]")
    yield Breach(declared, _BUS, "properties: each.properties", "properties: {}")
    detect = storage.queues_detect_duplicates
    yield Breach(detect, _QUEUES, '"requiresDuplicateDetection": true', '"requiresDuplicateDetection": false')
    yield Breach(storage.queues_bound_their_messages, _QUEUES, '"maxDeliveryCount": 10,', "")
    tables = storage.tables_are_declared
    yield Breach(tables, _BACKING, "'Circuits', 'AgentRequests']", "'Circuits']")
    yield Breach(tables, _MAIN, "sampleServices ? sampleTables : []", "sampleTables")
    replicated = storage.state_is_replicated_as_chosen
    yield Breach(replicated, _MAIN, "param redundancy string = 'ZRS'", "param redundancy string = 'LRS'")
    yield Breach(replicated, _BACKING, "name: names.stateStorage", "name: names.agentStorage")


def _settings() -> Iterator[Breach]:
    known = settings.every_known_setting_is_set
    yield Breach(known, _APPLICATION, "  SKEW_SECONDS: string(application.?skewSeconds ?? 5)\n", "")
    yield Breach(known, _APP_SETTINGS, "  DRONE_URL: '${servicesUrl}/drones'\n", "")
    unknown = settings.no_unknown_setting_is_set
    yield Breach(unknown, _APPLICATION, "  SKEW_SECONDS:", "  SKEW_SECOND:")
    yield Breach(unknown, _APP_SETTINGS, "StateStore__tableServiceUri:", "StateStore__tableUri:")
    yield Breach(unknown, _APP_SETTINGS, "servesQueues && contains(ofQueued, each.key)", "servesQueues")
    yield Breach(
        unknown, _APP_SETTINGS, "runsActivities && !contains(ofQueuedOnly, each.key)", "runsActivities"
    )
    yield Breach(unknown, _APPS_LIST, '"agentsOfBothWays": []', '"agentsOfBothWays": ["payment"]')
    yield Breach(
        unknown, _APPLICATION, "  STATE_SHARDS:", "  FUNCTIONS_WORKER_RUNTIME: 'python'\n  STATE_SHARDS:"
    )
    starts = settings.application_starts_with_its_settings
    yield Breach(starts, _APPLICATION, "?? '60,300,900'", "?? 'a while'")
    yield Breach(starts, _APPLICATION, "supervisorThreshold ?? 3", "supervisorThreshold ?? 4")
    samples = settings.agents_call_the_samples
    yield Breach(samples, _APP_SETTINGS, "${servicesUrl}/drones", "${servicesUrl}/drone")
    yield Breach(samples, _APP_SETTINGS, "https://${servicesHostName}", "http://${servicesHostName}")
    keys = settings.agents_send_the_key_of_the_samples
    yield Breach(keys, _APP_SETTINGS, "'keyvault'", "'blob'")
    yield Breach(keys, _APP_SETTINGS, "  DRONE_KEY: servicesKey\n", "")
    yield Breach(keys, _VAULT, "'function--services--agents'", "'function--service--agents'")
    yield Breach(keys, _VAULT, "secretUriWithVersion", "secretUri")
    versions, webhook = settings.references_to_secrets_name_a_version, "webhookUrl.?properties.secretUri"
    yield Breach(versions, _VAULT, f"{webhook}WithVersion", webhook)
    callers = settings.callers_are_identified_by_sign_in_only
    yield Breach(callers, _APP_SETTINGS, "signIn ? 'easyauth' : 'keys'", "'easyauth'")
    yield Breach(callers, _APPS, "signIn: !empty(signInClientId)", "signIn: false")
    connections = settings.connections_are_set
    hub = "app.usesHub && !empty(eventHubsHostName)"
    yield Breach(connections, _APP_SETTINGS, f"{hub} ? eventHubSettings : {{}}", "{}")
    yield Breach(connections, _APP_SETTINGS, hub, "app.usesHub")
    yield Breach(connections, _APP_SETTINGS, "empty(app.tables) ? {} : ", "")
    yield Breach(connections, _APP_SETTINGS, "!empty(app.agentTables) && ", "")
    yield Breach(connections, _APP_SETTINGS, "ServiceBusConnection__", "ServiceBus__")
    yield Breach(settings.references_are_set, "host.json", '"SchedulerAgentSupervisor"', '"%TASK_HUB%"')
    durable, override = settings.host_json_fits_the_durable_backend, "durableTask__storageProvider__type"
    yield Breach(durable, "host.json", '"type": "AzureStorage"', '"type": "azureManaged"')
    yield Breach(durable, _APP_SETTINGS, override, "durableTask__storage__type")
    yield Breach(
        durable, _APP_SETTINGS, "connectionStringName: 'DURABLE_TASK", "connectionStringName: 'DURABLE"
    )
    yield Breach(durable, _APP_SETTINGS, "app.taskHub && !empty(durableSchedulerEndpoint)", "app.taskHub")
    yield Breach(durable, _APP_SETTINGS, "app.taskHub && ", "")


def _form() -> Iterator[Breach]:
    described = form.everything_is_described
    yield Breach(described, _BUS, "@description('Name of the namespace.')\n", "")
    yield Breach(described, _APPLICATION, "  @description('Recoveries that a task gets at once.')\n", "")
    bounds = "@minValue(0)\n@maxValue(20)\nparam alwaysReadyInstances"
    yield Breach(form.numbers_are_bounded, _MAIN, bounds, "param alwaysReadyInstances")
    hold, most = form.bounds_hold_in_modules, "@minValue(40)\n@maxValue(1000)\nparam maximumInstances"
    yield Breach(hold, _APP, most, "@minValue(41)\n@maxValue(1000)\nparam maximumInstances")
    yield Breach(hold, _APP, most, "@minValue(40)\n@maxValue(999)\nparam maximumInstances")
    yield Breach(form.files_are_short, _ROLES, "@export()\n", "\n" * 300 + "@export()\n")
    here = form.modules_are_files_here
    yield Breach(here, _WATCHING, "'budget.bicep'", "'br/public:avm/res/consumption/budget:0.3.5'")
    yield Breach(form.every_file_is_used, _WATCHING, "'budget.bicep'", "'../identity.bicep'")
    used, variable = form.every_parameter_is_used, "var useScheduler ="
    yield Breach(used, _MAIN, variable, "var leftOver = 1\nvar useScheduler =")
    yield Breach(
        form.versions_are_listed, _STORAGE, "storageAccounts@2026-04-01", "storageAccounts@2021-01-01"
    )


def _references() -> Iterator[Breach]:
    declared = references.names_are_declared
    yield Breach(declared, _BUS, "sku: {\n    name: tier", "sku: {\n    name: tiers")
    yield Breach(declared, _BACKING, "concat(stateTables", "concatenate(stateTables")
    exported = references.imported_names_are_exported
    yield Breach(exported, _ROLES, "@export()\n", "")
    yield Breach(exported, _APPLICATION, "func settingsOf", "func settings")
    get = references.modules_get_their_parameters
    yield Breach(get, _MAIN, "    sampleServices: sampleServices\n", "")
    yield Breach(get, _MAIN, "    instanceMemory: instanceMemory\n", "    memory: instanceMemory\n")
    exist = references.outputs_that_are_read_exist
    yield Breach(exist, _APPS, "bases[index].outputs.vaultUri", "bases[index].outputs.vaultUrl")
    yield Breach(exist, _MAIN, "backing.outputs.durableTaskHub", "backing.outputs.taskHub")


def _platform() -> Iterator[Breach]:
    flex, web = platform.flex_consumption_supports_every_property, "      http20Enabled: true\n"
    yield Breach(flex, _APP, web, f"{web}      ftpsState: 'Disabled'\n")
    start = "param budgetStart string = "
    yield Breach(platform.deployments_can_be_repeated, _MAIN, f"{start}''", f"{start}utcNow('yyyy-MM-01')")
    names = platform.deployments_have_names_of_their_own
    yield Breach(names, _MAIN, "name: 'watching'", "name: 'network'")
    one, endpoints = (
        platform.private_endpoints_are_deployed_one_by_one,
        "infra/modules/private-endpoints.bicep",
    )
    yield Breach(one, endpoints, "@batchSize(1)\n", "")
    yield Breach(one, endpoints, "@batchSize(1)", "@batchSize(2)")
    finds = platform.azd_finds_what_it_looks_for
    yield Breach(finds, _MAIN, "'azd-env-name'", "'environment'")
    yield Breach(finds, "azure.yaml", "  app:", "  api:")
    yield Breach(finds, "azure.yaml", "    condition: ${ROLES_SPLIT}\n", "")
    yield Breach(finds, "azure.yaml", "host: function", "host: appservice")


BREACHES = (
    *_access(),
    *_transport(),
    *_secrets(),
    *_storage(),
    *_settings(),
    *_form(),
    *_references(),
    *_platform(),
)
