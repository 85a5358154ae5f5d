// What Azure itself logs of who did what to that which all apps share: Service Bus, and tables. It goes to the workspace.

@description('Resource id of the Log Analytics workspace.')
param workspaceId string

@description('Name of the Service Bus namespace.')
param serviceBusName string

@description('Names of the storage accounts of the state store and of the Agents.')
@minLength(1)
param tableStorageNames string[]

@description('Whether each access to their tables is logged: a line for each request, so several for each order.')
param stateAccess bool

resource serviceBus 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: serviceBusName
}

resource tableStorage 'Microsoft.Storage/storageAccounts@2026-04-01' existing = [
  for accountName in tableStorageNames: {
    name: accountName
  }
]

resource tables 'Microsoft.Storage/storageAccounts/tableServices@2026-04-01' existing = [
  for (accountName, number) in tableStorageNames: {
    parent: tableStorage[number]
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

resource ofTables 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = [
  for (accountName, number) in tableStorageNames: {
    name: 'audit'
    scope: tables[number]
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
