// What Azure itself logs of who did what: to Service Bus, the vault, and storage. It goes to the workspace.

@description('Resource id of the Log Analytics workspace.')
param workspaceId string

@description('Name of the Service Bus namespace.')
param serviceBusName string

@description('Name of the vault.')
param vaultName string

@description('Name of the host\'s storage account.')
param hostStorageName string

@description('Names of the storage accounts of the state store.')
@minLength(1)
param stateStorageNames string[]

@description('Whether each access to the state store is logged: a line for each request to its tables, so several for each order.')
param stateAccess bool

resource serviceBus 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: serviceBusName
}

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' existing = {
  name: vaultName
}

resource hostStorage 'Microsoft.Storage/storageAccounts@2026-04-01' existing = {
  name: hostStorageName
}

resource hostBlobs 'Microsoft.Storage/storageAccounts/blobServices@2026-04-01' existing = {
  parent: hostStorage
  name: 'default'
}

resource stateStorage 'Microsoft.Storage/storageAccounts@2026-04-01' existing = [
  for accountName in stateStorageNames: {
    name: accountName
  }
]

resource stateTables 'Microsoft.Storage/storageAccounts/tableServices@2026-04-01' existing = [
  for (accountName, number) in stateStorageNames: {
    parent: stateStorage[number]
    name: 'default'
  }
]

// What is done to queues themselves; each message is the application's business.
resource ofServiceBus 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: serviceBus
  properties: {
    workspaceId: workspaceId
    logAnalyticsDestinationType: 'Dedicated'
    logs: [
      {
        category: 'OperationalLogs'
        enabled: true
      }
    ]
  }
}

// Who read, made or deleted which secret.
resource ofVault 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: vault
  properties: {
    workspaceId: workspaceId
    logAnalyticsDestinationType: 'Dedicated'
    logs: [
      {
        category: 'AuditEvent'
        enabled: true
      }
    ]
  }
}

// Who changed the package that is run.
resource ofPackage 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: hostBlobs
  properties: {
    workspaceId: workspaceId
    logs: [
      {
        category: 'StorageWrite'
        enabled: true
      }
      {
        category: 'StorageDelete'
        enabled: true
      }
    ]
  }
}

resource ofState 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = [
  for (accountName, number) in stateStorageNames: {
    name: 'audit'
    scope: stateTables[number]
    properties: {
      workspaceId: workspaceId
      logs: [
        {
          category: 'StorageRead'
          enabled: stateAccess
        }
        {
          category: 'StorageWrite'
          enabled: stateAccess
        }
        {
          category: 'StorageDelete'
          enabled: true
        }
      ]
    }
  }
]
