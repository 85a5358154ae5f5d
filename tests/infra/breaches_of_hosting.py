"""Templates that violate a policy of hosting, network, watching or Azure's own types; see `breaches.py`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.infra.azure import policies as azure
from tests.infra.breaches import Breach
from tests.infra.policies import access, hosting, network, separation, transport, watching

_ACCESS = "infra/modules/access.bicep"
_ALERTS = "infra/modules/watching/alerts.json"
_APP = "infra/modules/function-app.bicep"
_APP_BASE = "infra/modules/app-base.bicep"
_APP_SETTINGS = "infra/modules/app-settings.bicep"
_APPS = "infra/modules/applications.bicep"
_BACKING = "infra/modules/backing-services.bicep"
_BUS = "infra/modules/service-bus.bicep"
_DURABLE = "infra/modules/durable-scheduler.bicep"
_ENDPOINTS = "infra/modules/private-endpoints.bicep"
_LOCKS = "infra/modules/locks.bicep"
_APP_DIAGNOSTICS = "infra/modules/app-diagnostics.bicep"
_DIAGNOSTICS = "infra/modules/diagnostics.bicep"
_LOG_ALERTS = "infra/modules/watching/log-alerts.bicep"
_MAIN = "infra/main.bicep"
_NAMES = "infra/modules/names.bicep"
_METRIC_ALERTS = "infra/modules/watching/metric-alerts.bicep"
_NETWORK = "infra/modules/network.bicep"
_REGIONS = "infra/modules/regions.bicep"
_SIGN_IN = "infra/modules/sign-in.bicep"
_STORAGE = "infra/modules/storage-account.bicep"
_VAULT = "infra/modules/vault.bicep"
_WORKBOOK = "infra/workbook/workbook.json"


def _hosting() -> Iterator[Breach]:
    tested = hosting.app_runs_as_it_is_tested
    yield Breach(tested, _APP, "name: 'FC1'", "name: 'Y1'")
    yield Breach(tested, _APP, "version: '3.13'", "version: '3.9'")
    ready = hosting.always_ready_groups_exist
    yield Breach(ready, _APP, "name: 'durable'", "name: 'scheduler'")
    yield Breach(ready, _APP, "hasTaskHub && ", "")
    yield Breach(ready, _APP, "zoneRedundant ? max(alwaysReadyHttpInstances, 2) : ", "")
    fill = hosting.callers_may_fill_an_instance
    yield Breach(fill, _APP, "            perInstanceConcurrency: requestsAtOnce\n", "")
    yield Breach(fill, _APP_SETTINGS, "string(requestsAtOnce)", "'200'")
    own = hosting.app_uses_its_own_identity
    yield Breach(own, _APP, "    keyVaultReferenceIdentity: identityId\n", "")
    yield Breach(own, _APP, "'UserAssignedIdentity'", "'SystemAssignedIdentity'")
    takes = hosting.durable_scheduler_takes_the_identity
    yield Breach(takes, _APP_SETTINGS, "Authentication=ManagedIdentity", "Authentication=AAD")
    yield Breach(takes, _DURABLE, "name: 'Consumption'", "name: 'Dedicated'")
    yield Breach(hosting.zones_are_as_chosen, _APP, "    zoneRedundant: zoneRedundant\n", "")
    protected = hosting.data_is_protected_as_chosen
    yield Breach(protected, _VAULT, "purgeProtection ? true : null", "purgeProtection")
    yield Breach(protected, _LOCKS, "'CanNotDelete'", "'ReadOnly'")
    yield Breach(protected, _APPS, "if (locked)", "if (purgeProtection && false)")
    listed = hosting.regions_are_listed
    yield Breach(listed, _REGIONS, "'australiaeast'", "'australiaest'")
    yield Breach(listed, _MAIN, "type: 'location'", "type: 'region'")
    role = access.every_role_is_assigned
    yield Breach(role, _APP_BASE, "roles.storageBlobDataOwner, roles.storageQueue", "roles.storageQueue")
    hubs = access.hubs_may_be_used_as_the_roles_say
    yield Breach(hubs, _ACCESS, "app.writesHub", "app.readsHub")
    yield Breach(hubs, _ACCESS, "app.readsHub", "app.writesHub")
    yield Breach(hubs, _ACCESS, "if (app.taskHub && useScheduler)", "if (app.writesHub && useScheduler)")
    other = network.agents_send_through_the_network_that_is_chosen
    yield Breach(other, _APPS, "app.service == 'agents' && ", "")
    yield Breach(other, _APPS, "? agentsSubnetId :", "? '' :")
    told = watching.alerts_tell_the_operators
    yield Breach(told, _LOG_ALERTS, "          alert.posted ? mailGroupId : actionGroupId\n", "")
    yield Breach(told, _METRIC_ALERTS, "      enabled: true\n", "      enabled: false\n")
    yield Breach(watching.alerts_keep_their_names, _MAIN, "names.alerts", "applications.outputs.names[0]")
    audited = watching.who_did_what_is_logged
    yield Breach(audited, _APP_DIAGNOSTICS, "'AuditEvent'", "'AuditEvents'")
    yield Breach(audited, _DIAGNOSTICS, "scope: tables[number]", "scope: serviceBus")
    yield Breach(audited, _BACKING, "hasAgentStorage ? [names.agentStorage] : []", "[]")
    kept = watching.logs_are_bounded_and_actions_kept
    yield Breach(kept, _BACKING, "logs.?dailyGigabytes ?? 10", "-1")
    yield Breach(kept, "infra/modules/monitoring.bicep", "name: 'AppEvents'", "name: 'AppEvent'")


def _separation() -> Iterator[Breach]:
    own = separation.apps_use_what_is_their_own
    yield Breach(own, _APPS, "identityClientId: bases[index]", "identityClientId: bases[0]")
    yield Breach(own, _APPS, "hostStorageEndpoints: bases[index]", "hostStorageEndpoints: bases[0]")
    share = separation.apps_share_nothing_of_their_own
    yield Breach(share, _APPS, "vaultUri: bases[index]", "vaultUri: bases[0]")
    yield Breach(share, _APPS, "appSubnetIds[index]", "appSubnetIds[0]")
    yield Breach(share, _NAMES, "'plan-${token}-${mark}'", "'plan-${token}'")
    held = separation.hosts_may_use_their_own_only
    yield Breach(held, _APP_BASE, ": [roles.storageBlobDataOwner]", ": [roles.storageQueueDataContributor]")
    more = ": [roles.storageBlobDataOwner, roles.storageTableDataContributor]"
    yield Breach(held, _APP_BASE, ": [roles.storageBlobDataOwner]", more)
    yield Breach(held, _NAMES, "'kv-${token}-${mark}'", "'kv-${token}'")


def _network() -> Iterator[Breach]:
    delegated = network.app_subnet_is_delegated
    yield Breach(delegated, _NETWORK, "Microsoft.App/environments", "Microsoft.Web/serverFarms")
    found = network.private_addresses_are_found
    yield Breach(found, _ENDPOINTS, "'privatelink.vaultcore.azure.net'", "'privatelink.vault.azure.net'")
    yield Breach(found, _ENDPOINTS, "zones[target.group]", "zones.blob")
    lead, host = network.endpoints_lead_to_what_apps_use, "resourceId: hostStorage.outputs.id"
    yield Breach(lead, _APP_BASE, "group: 'queue'", "group: 'table'")
    yield Breach(lead, _APP_BASE, f"{host}, group: 'blob'", "resourceId: vault.outputs.id, group: 'blob'")
    yield Breach(
        lead,
        _APPS,
        "in apps: bases[index].outputs.endpointTargets",
        "in apps: bases[0].outputs.endpointTargets",
    )
    yield Breach(
        lead, _BACKING, "hasAgentStorage ? [{ name: 'pe-agent-table'", "false ? [{ name: 'pe-agent-table'"
    )
    kept = network.endpoints_keep_their_names
    for name in ("pe-host-queue", "pe-host-blob", "pe-vault"):
        yield Breach(kept, _APP_BASE, f"{name}${{own.suffix}}", name)
    guards, tokens = transport.sign_in_guards_all_but_health, transport.tokens_are_of_the_own_tenant
    yield Breach(guards, _SIGN_IN, "requireAuthentication: true", "requireAuthentication: false")
    yield Breach(guards, _SIGN_IN, "platform: {\n      enabled: true", "platform: {\n      enabled: false")
    yield Breach(tokens, _SIGN_IN, "${tenant().tenantId}/v2.0", "common/v2.0")
    yield Breach(tokens, _SIGN_IN, "            clientId\n", "            'api://anybody'\n")


def _azure() -> Iterator[Breach]:
    fit = azure.resources_fit_their_types
    yield Breach(fit, _STORAGE, "supportsHttpsTrafficOnly", "supportHttpsTrafficOnly")
    yield Breach(fit, _STORAGE, "minimumTlsVersion: 'TLS1_2'", "minimumTlsVersion: 'TLS12'")
    yield Breach(fit, _VAULT, "softDeleteRetentionInDays: 7", "softDeleteRetentionInDays: '7'")
    yield Breach(fit, _DURABLE, "    ipAllowlist: private ? [] : ['0.0.0.0/0']\n", "")
    yield Breach(fit, _SIGN_IN, "name: 'authsettingsV2'", "name: 'authsettingsV3'")
    yield Breach(fit, "infra/modules/identity.bicep", "  tags: tags\n", "  id: name\n")
    scope = azure.resources_are_where_they_may_be
    group = "targetScope = 'resourceGroup'"
    yield Breach(scope, _MAIN, "targetScope = 'subscription'", group)
    read = azure.properties_that_are_read_exist
    yield Breach(read, _APP, "app.properties.defaultHostName", "app.properties.defaultHostname")
    yield Breach(read, _VAULT, "secretUriWithVersion", "secretUriWithVersions")
    versions = azure.versions_are_the_newest
    yield Breach(versions, _BUS, "@2026-01-01", "@2024-01-01")
    columns = azure.queries_name_tables_and_columns
    yield Breach(
        columns, "infra/queries/sweeps.kql", "startswith", "startswith Messages and Message startswith"
    )
    yield Breach(columns, "infra/queries/failed-requests.kql", "AppRequests", "AppRequest")
    yield Breach(columns, _WORKBOOK, "by Workflow,", "by Workflows,")
    yield Breach(columns, _ALERTS, '"OldestSeconds"', '"OldestSecond"')
    metrics = azure.metrics_exist
    yield Breach(metrics, _ALERTS, '"ActiveMessages"', '"ActiveMessage"')
    yield Breach(metrics, _METRIC_ALERTS, "'EntityName'", "'QueueName'")
    yield Breach(metrics, _ALERTS, '"aggregation": "Minimum"', '"aggregation": "Total"')
    yield Breach(metrics, _WORKBOOK, "namespaces--ActiveMessages", "namespaces--Active")
    host = azure.settings_of_the_host_exist
    yield Breach(host, _APP_SETTINGS, "AzureWebJobsStorage__blobServiceUri", "AzureWebJobsStorage__blobUri")
    yield Breach(host, _APP_SETTINGS, "durableTask__hubName", "durableTask__hub")
    yield Breach(host, _APP_SETTINGS, "  AUTH_MODE:", "  FUNCTIONS_WORKER_RUNTIME: 'python'\n  AUTH_MODE:")


HOSTING_BREACHES = (*_hosting(), *_separation(), *_network())
AZURE_BREACHES = tuple(_azure())
