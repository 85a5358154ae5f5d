// What the application stands on: its identity, telemetry, storage, queues, and what it may do with each.

import { LogChoices } from 'log-choices.bicep'
import { EndpointTarget } from 'private-endpoints.bicep'
import { roles } from 'roles.bicep'

@description('Names of the resources (names.bicep).')
param names object

@description('Region of all resources.')
param location string

@description('Tags of all resources.')
param tags object

@description('Replication of the state store.')
@allowed(['LRS', 'ZRS', 'GRS', 'GZRS'])
param redundancy string

@description('Whether everything is reached through private endpoints only.')
param private bool

@description('Whether Durable Functions keeps its state in a Durable Task Scheduler.')
param useScheduler bool

@description('Whether orders come through an event hub, too.')
param useEventHub bool

@description('Whether the API puts the orders that it accepts on the event hub.')
param submitsToHub bool

@description('Hours for which tasks are kept beyond what the event hub keeps, and a day.')
@minValue(0)
param spareHours int

@description('Whether tables are made for the sample services too.')
param sampleServices bool

@description('The key of the sample services, or nothing if the vault has it.')
@secure()
param sampleServicesKey string

@description('Whether nobody may purge the vault.')
param purgeProtection bool

@description('What is logged, and for how long.')
param logs LogChoices

@description('Address that alerts are posted to, or nothing.')
@secure()
param alertWebhookUrl string

@description('Function keys of persons and roles.')
@maxLength(100)
param namedKeys string[]

var packageContainer = 'app-package'

// The application makes these too, when they are missing: functions/store/, functions/services/service.py.
var stateTables = ['Tasks', 'Rejected', 'Trends', 'Circuits', 'AgentRequests', 'AgentRejected']
var sampleTables = ['Accounts', 'ServiceFaults', 'Payments', 'Packages', 'Transports', 'Drones', 'Deliveries']

module identity 'identity.bicep' = {
  name: 'identity'
  params: {
    name: names.identity
    location: location
    tags: tags
  }
}

module monitoring 'monitoring.bicep' = {
  name: 'monitoring'
  params: {
    workspaceName: names.logs
    componentName: names.insights
    location: location
    tags: tags
    retentionInDays: logs.?retentionDays ?? 30
    auditRetentionInDays: logs.?auditRetentionDays ?? 365
    dailyGigabytes: logs.?dailyGigabytes ?? 10
    principalId: identity.outputs.principalId
  }
}

// The host's own account: leases and keys, the package, the Durable task hub. As the state store is the truth, this one
// needs no copy in a second region.
module hostStorage 'storage-account.bicep' = {
  name: 'host-storage'
  params: {
    name: names.hostStorage
    location: location
    tags: tags
    redundancy: redundancy == 'ZRS' || redundancy == 'GZRS' ? 'ZRS' : 'LRS'
    private: private
    containers: [packageContainer]
    roleIds: [roles.storageBlobDataOwner, roles.storageQueueDataContributor, roles.storageTableDataContributor]
    principalId: identity.outputs.principalId
  }
}

// Accounts for nothing but the state store: a role on one is a role on its tables, and the app can make them itself.
// Tasks are spread over all of them; what is no task's lies in the first (docs/scale.md).
module stateStorage 'storage-account.bicep' = [
  for (accountName, number) in names.stateStorage: {
    name: number == 0 ? 'state-storage' : 'state-storage-${number}'
    params: {
      name: accountName
      location: location
      tags: tags
      redundancy: redundancy
      private: private
      tables: number == 0 ? concat(stateTables, sampleServices ? sampleTables : []) : ['Tasks']
      roleIds: [roles.storageTableDataContributor]
      principalId: identity.outputs.principalId
    }
  }
]

module serviceBus 'service-bus.bicep' = {
  name: 'service-bus'
  params: {
    name: names.serviceBus
    location: location
    tags: tags
    private: private
    principalId: identity.outputs.principalId
  }
}

module eventHubs 'event-hubs.bicep' = if (useEventHub) {
  name: 'event-hubs'
  params: {
    name: names.eventHubs
    location: location
    tags: tags
    private: private
    principalId: identity.outputs.principalId
    sends: submitsToHub
    spareHours: spareHours
  }
}

module durableScheduler 'durable-scheduler.bicep' = if (useScheduler) {
  name: 'durable-scheduler'
  params: {
    name: names.durableScheduler
    location: location
    tags: tags
    private: private
    principalId: identity.outputs.principalId
  }
}

module vault 'vault.bicep' = {
  name: 'vault'
  params: {
    name: names.vault
    location: location
    tags: tags
    private: private
    principalId: identity.outputs.principalId
    sampleServices: sampleServices
    sampleServicesKey: sampleServicesKey
    purgeProtection: purgeProtection
    alertWebhookUrl: alertWebhookUrl
    namedKeys: namedKeys
  }
}

module diagnostics 'diagnostics.bicep' = {
  name: 'diagnostics'
  params: {
    workspaceId: monitoring.outputs.workspaceId
    serviceBusName: names.serviceBus
    vaultName: names.vault
    hostStorageName: names.hostStorage
    stateStorageNames: names.stateStorage
    stateAccess: logs.?stateAccess ?? false
  }
  // What it watches has to be there.
  dependsOn: [serviceBus, vault, hostStorage, stateStorage]
}

@description('Resource id of the app\'s identity.')
output identityId string = identity.outputs.id

@description('Client id of the app\'s identity.')
output identityClientId string = identity.outputs.clientId

@description('Resource id of the Log Analytics workspace.')
output workspaceId string = monitoring.outputs.workspaceId

@description('Resource id of the Application Insights component.')
output componentId string = monitoring.outputs.componentId

@description('Resource id of the Service Bus namespace.')
output serviceBusId string = serviceBus.outputs.id

@description('Host name of the Service Bus namespace.')
output serviceBusHostName string = serviceBus.outputs.hostName

@description('Resource id of the Event Hubs namespace, or nothing.')
output eventHubsId string = eventHubs.?outputs.?id ?? ''

@description('Host name of the Event Hubs namespace, or nothing.')
output eventHubsHostName string = eventHubs.?outputs.?hostName ?? ''

@description('Addresses of the host\'s storage account, by service.')
output hostStorageEndpoints object = hostStorage.outputs.endpoints

@description('Address of the blob container that holds the package.')
output packageContainerUrl string = '${hostStorage.outputs.endpoints.blob}${packageContainer}'

@description('Addresses of the tables of the state store, by account.')
output stateTableEndpoints string[] = [
  for (accountName, number) in names.stateStorage: stateStorage[number].outputs.endpoints.table
]

@description('Address of the Durable Task Scheduler, or nothing.')
output durableSchedulerEndpoint string = durableScheduler.?outputs.?endpoint ?? ''

@description('Task hub in the Durable Task Scheduler, or nothing.')
output durableTaskHub string = durableScheduler.?outputs.?taskHub ?? ''

@description('Address of the vault.')
output vaultUri string = vault.outputs.uri

@description('Where the vault has the key of the sample services, or nothing.')
output sampleServicesKeyInVault string = vault.outputs.sampleServicesKeyInVault

@description('Where the vault has the address that alerts are posted to, or nothing.')
output alertWebhookInVault string = vault.outputs.alertWebhookInVault

@description('Where the vault has the function keys of persons and roles, in the order of namedKeys.')
output namedKeysInVault string[] = vault.outputs.namedKeysInVault

@description('What private endpoints have to lead to for the state store.')
output stateEndpointTargets EndpointTarget[] = [
  for (accountName, number) in names.stateStorage: {
    name: number == 0 ? 'pe-state-table' : 'pe-state-table-${number}'
    resourceId: stateStorage[number].outputs.id
    group: 'table'
  }
]

@description('What private endpoints have to lead to, beside the state store.')
output endpointTargets EndpointTarget[] = concat(
  [
    { name: 'pe-host-blob', resourceId: hostStorage.outputs.id, group: 'blob' }
    { name: 'pe-host-queue', resourceId: hostStorage.outputs.id, group: 'queue' }
    { name: 'pe-host-table', resourceId: hostStorage.outputs.id, group: 'table' }
    { name: 'pe-service-bus', resourceId: serviceBus.outputs.id, group: 'namespace' }
    { name: 'pe-vault', resourceId: vault.outputs.id, group: 'vault' }
  ],
  useEventHub ? [{ name: 'pe-event-hubs', resourceId: eventHubs.?outputs.?id ?? '', group: 'namespace' }] : [],
  useScheduler
    ? [{ name: 'pe-durable-scheduler', resourceId: durableScheduler.?outputs.?id ?? '', group: 'scheduler' }]
    : []
)
