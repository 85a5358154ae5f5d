// The vault: the Functions host keeps the app's keys in it, and the settings refer to it for what nobody may read in them.

import { roles } from 'roles.bicep'

@description('Name of the vault.')
@minLength(3)
@maxLength(24)
param name string

@description('Region of the vault.')
param location string

@description('Tags of the vault.')
param tags object

@description('Whether the vault is reached through a private endpoint only.')
param private bool

@description('The app whose keys it keeps.')
param principalId string

@description('Whether the app serves the sample services, which ask for a key.')
param sampleServices bool

@description('The key that the app\'s own Agents show the sample services, or nothing if the vault has it: written again, it would be a new version.')
@secure()
param sampleServicesKey string

@description('Whether nobody may purge the vault or what was deleted in it.')
param purgeProtection bool

@description('The address that alerts are posted to, or nothing; who knows it can post.')
@secure()
param alertWebhookUrl string

resource vault 'Microsoft.KeyVault/vaults@2026-02-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    sku: {
      family: 'A'
      name: 'standard'
    }
    tenantId: tenant().tenantId
    enableRbacAuthorization: true
    enableSoftDelete: true
    // Azure takes true or nothing: what was switched on stays on.
    enablePurgeProtection: purgeProtection ? true : null
    softDeleteRetentionInDays: 7
    publicNetworkAccess: private ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'None'
      defaultAction: private ? 'Deny' : 'Allow'
    }
  }
}

// By this name the host knows a key, `agents`, of the function `services`, and takes it instead of making one: so the
// settings can refer to a key before the app has ever run (Functions: AzureWebJobsSecretStorageType).
resource servicesKey 'Microsoft.KeyVault/vaults/secrets@2026-02-01' = if (sampleServices && !empty(sampleServicesKey)) {
  parent: vault
  name: 'function--services--agents'
  properties: {
    value: sampleServicesKey
  }
}

resource keptServicesKey 'Microsoft.KeyVault/vaults/secrets@2026-02-01' existing = if (sampleServices && empty(sampleServicesKey)) {
  parent: vault
  name: 'function--services--agents'
}

resource webhookUrl 'Microsoft.KeyVault/vaults/secrets@2026-02-01' = if (!empty(alertWebhookUrl)) {
  parent: vault
  name: 'alert-webhook-url'
  properties: {
    value: alertWebhookUrl
  }
}

resource officer 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(vault.id, principalId, roles.keyVaultSecretsOfficer)
  scope: vault
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.keyVaultSecretsOfficer)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

@description('Resource id of the vault.')
output id string = vault.id

@description('Address of the vault.')
output uri string = vault.properties.vaultUri

@description('Where the key of the sample services is, or nothing; its version makes the app start anew when it changes.')
output sampleServicesKeyInVault string = servicesKey.?properties.secretUriWithVersion ?? (keptServicesKey.?properties.secretUriWithVersion ?? '')

@description('Where the address that alerts are posted to is, or nothing; without its version, the app would use the old one for a day.')
output alertWebhookInVault string = webhookUrl.?properties.secretUriWithVersion ?? ''
