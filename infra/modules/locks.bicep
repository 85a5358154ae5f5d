// Locks on what holds data: nobody deletes it by mistake, not even with the resource group.

@description('Names of the storage accounts.')
param storageAccountNames array

@description('Name of the Service Bus namespace.')
param serviceBusName string

@description('Name of the Event Hubs namespace, or nothing.')
param eventHubsName string

@description('Names of the vaults.')
param vaultNames array

var reason = 'Holds orders, messages or keys: delete the lock first, if that is meant (docs/deploy.md).'

resource accounts 'Microsoft.Storage/storageAccounts@2026-04-01' existing = [
  for accountName in storageAccountNames: {
    name: accountName
  }
]

resource namespace 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: serviceBusName
}

resource eventHubs 'Microsoft.EventHub/namespaces@2026-01-01' existing = if (!empty(eventHubsName)) {
  name: eventHubsName
}

resource vaults 'Microsoft.KeyVault/vaults@2026-02-01' existing = [
  for vaultName in vaultNames: {
    name: vaultName
  }
]

resource accountLocks 'Microsoft.Authorization/locks@2020-05-01' = [
  for (accountName, index) in storageAccountNames: {
    name: 'holds-data'
    scope: accounts[index]
    properties: {
      level: 'CanNotDelete'
      notes: reason
    }
  }
]

resource namespaceLock 'Microsoft.Authorization/locks@2020-05-01' = {
  name: 'holds-data'
  scope: namespace
  properties: {
    level: 'CanNotDelete'
    notes: reason
  }
}

resource eventHubsLock 'Microsoft.Authorization/locks@2020-05-01' = if (!empty(eventHubsName)) {
  name: 'holds-data'
  scope: eventHubs
  properties: {
    level: 'CanNotDelete'
    notes: reason
  }
}

resource vaultLocks 'Microsoft.Authorization/locks@2020-05-01' = [
  for (vaultName, index) in vaultNames: {
    name: 'holds-data'
    scope: vaults[index]
    properties: {
      level: 'CanNotDelete'
      notes: reason
    }
  }
]
