// What one app stands on and shares with no other: its identity, its host's storage, its vault; and what it may do.

import { EndpointTarget } from 'private-endpoints.bicep'
import { appNamesOf } from 'names.bicep'
import { roles } from 'roles.bicep'

@description('The app, as infra/roles.json describes it.')
param app object

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

@description('Whether this is the only app.')
param isWhole bool

@description('Whether Durable Functions keeps its state in a Durable Task Scheduler.')
param useScheduler bool

@description('Whether orders come through an event hub, too.')
param useEventHub bool

@description('Tables of the sample services, or none.')
param sampleTables string[]

@description('The key of the sample services, or nothing if the vault has it.')
@secure()
param sampleServicesKey string

@description('Whether nobody may purge the vault.')
param purgeProtection bool

@description('Address that alerts are posted to, or nothing.')
@secure()
param alertWebhookUrl string

var packageContainer = 'app-package'
var own = appNamesOf(names.token, app.mark)
var hasSamples = app.hasSamplesKey && !empty(sampleTables)

module identity 'identity.bicep' = {
  name: 'identity${own.suffix}'
  params: {
    name: own.identity
    location: location
    tags: tags
  }
}

// The host's own account: leases and keys, the package, the Durable task hub. As the state store is the truth, this one
// needs no copy in a second region.
module hostStorage 'storage-account.bicep' = {
  name: 'host-storage${own.suffix}'
  params: {
    name: own.hostStorage
    location: location
    tags: tags
    redundancy: redundancy == 'ZRS' || redundancy == 'GZRS' ? 'ZRS' : 'LRS'
    private: private
    containers: [packageContainer]
    roleIds: app.taskHub
      ? [roles.storageBlobDataOwner, roles.storageQueueDataContributor, roles.storageTableDataContributor]
      : [roles.storageBlobDataOwner]
    principalId: identity.outputs.principalId
  }
}

module vault 'vault.bicep' = {
  name: 'vault${own.suffix}'
  params: {
    name: own.vault
    location: location
    tags: tags
    private: private
    principalId: identity.outputs.principalId
    sampleServices: hasSamples
    sampleServicesKey: sampleServicesKey
    purgeProtection: purgeProtection
    alertWebhookUrl: app.postsAlerts ? alertWebhookUrl : ''
  }
}

module access 'access.bicep' = {
  name: 'access${own.suffix}'
  params: {
    app: app
    principalId: identity.outputs.principalId
    names: names
    wholeAccount: isWhole
    sampleTables: app.servesSamples ? sampleTables : []
    useScheduler: useScheduler
    useEventHub: useEventHub
  }
}

module diagnostics 'app-diagnostics.bicep' = {
  name: 'app-diagnostics${own.suffix}'
  params: {
    workspaceName: names.logs
    vaultName: own.vault
    hostStorageName: own.hostStorage
  }
  // What it watches has to be there.
  dependsOn: [vault, hostStorage]
}

@description('Resource id of the app\'s identity.')
output identityId string = identity.outputs.id

@description('Client id of the app\'s identity.')
output identityClientId string = identity.outputs.clientId

@description('Addresses of the host\'s storage account, by service.')
output hostStorageEndpoints object = hostStorage.outputs.endpoints

@description('Address of the blob container that holds the package.')
output packageContainerUrl string = '${hostStorage.outputs.endpoints.blob}${packageContainer}'

@description('Address of the vault.')
output vaultUri string = vault.outputs.uri

@description('Where the vault has the key of the sample services, or nothing.')
output sampleServicesKeyInVault string = vault.outputs.sampleServicesKeyInVault

@description('Where the vault has the address that alerts are posted to, or nothing.')
output alertWebhookInVault string = vault.outputs.alertWebhookInVault

@description('What private endpoints have to lead to.')
output endpointTargets EndpointTarget[] = concat(
  [
    { name: 'pe-host-blob${own.suffix}', resourceId: hostStorage.outputs.id, group: 'blob' }
    { name: 'pe-vault${own.suffix}', resourceId: vault.outputs.id, group: 'vault' }
  ],
  app.taskHub
    ? [
        { name: 'pe-host-queue${own.suffix}', resourceId: hostStorage.outputs.id, group: 'queue' }
        { name: 'pe-host-table${own.suffix}', resourceId: hostStorage.outputs.id, group: 'table' }
      ]
    : []
)
