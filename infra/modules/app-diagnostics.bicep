// What Azure itself logs of who did what to that which is one app's own: its vault, its package. It goes to the workspace.

@description('Name of the Log Analytics workspace.')
param workspaceName string

@description('Name of the vault.')
param vaultName string

@description('Name of the host\'s storage account.')
param hostStorageName string

resource workspace 'Microsoft.OperationalInsights/workspaces@2026-03-01' existing = {
  name: workspaceName
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

// Who read, made or deleted which secret.
resource ofVault 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: vault
  properties: {
    workspaceId: workspace.id
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
    workspaceId: workspace.id
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
