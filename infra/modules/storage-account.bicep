// A storage account that is reached by identity and TLS only, what it holds, and what the app may do with it.

@description('Name of the account.')
@minLength(3)
@maxLength(24)
param name string

@description('Region of the account.')
param location string

@description('Tags of the account.')
param tags object

@description('How data is replicated: in one zone, over zones, or to a second region as well.')
@allowed(['LRS', 'ZRS', 'GRS', 'GZRS'])
param redundancy string

@description('Whether the account is reached through private endpoints only.')
param private bool

@description('Blob containers to make.')
param containers array = []

@description('Tables to make.')
param tables array = []

@description('Ids of the roles that one app has on this account, beside those of access.bicep.')
param roleIds array = []

@description('The app that has them.')
param principalId string = ''

resource account 'Microsoft.Storage/storageAccounts@2026-04-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: 'Standard_${redundancy}'
  }
  properties: {
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: private ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'None'
      defaultAction: private ? 'Deny' : 'Allow'
    }
  }
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2026-04-01' = {
  parent: account
  name: 'default'
  properties: {
    deleteRetentionPolicy: {
      enabled: true
      days: 7
    }
  }
}

resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2026-04-01' = [
  for containerName in containers: {
    parent: blobService
    name: containerName
    properties: {
      publicAccess: 'None'
    }
  }
]

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2026-04-01' = {
  parent: account
  name: 'default'
}

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2026-04-01' = {
  parent: account
  name: 'default'
}

resource table 'Microsoft.Storage/storageAccounts/tableServices/tables@2026-04-01' = [
  for tableName in tables: {
    parent: tableService
    name: tableName
  }
]

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for roleId in roleIds: {
    name: guid(account.id, principalId, roleId)
    scope: account
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleId)
      principalId: principalId
      principalType: 'ServicePrincipal'
    }
  }
]

@description('Resource id of the account.')
output id string = account.id

@description('Addresses of the account\'s services, by their names.')
output endpoints object = account.properties.primaryEndpoints
