// The Flex Consumption plan and the function app on it. Its settings are in app-settings.bicep.

@description('Name of the plan.')
param planName string

@description('Name of the app, which is part of its address.')
@minLength(2)
@maxLength(60)
param name string

@description('Region of both.')
param location string

@description('Tags of both.')
param tags object

@description('Name of the app\'s service in azure.yaml.')
param service string

@description('Resource id of the app\'s identity.')
param identityId string

@description('Address of the blob container that holds the package.')
param packageContainerUrl string

@description('Instances that are always ready for the Scheduler and its Agents (orchestrations and activities).')
@minValue(0)
@maxValue(20)
param alwaysReadyInstances int

@description('Whether the app has the Scheduler\'s functions.')
param hasTaskHub bool

@description('Whether the app has HTTP functions.')
param hasHttp bool

@description('Instances that are always ready for HTTP.')
@minValue(0)
@maxValue(20)
param alwaysReadyHttpInstances int

@description('Whether the app runs in three zones.')
param zoneRedundant bool

@description('Requests that an instance answers at once.')
@minValue(1)
@maxValue(1000)
param requestsAtOnce int

@description('The most instances that the app may grow to.')
@minValue(40)
@maxValue(1000)
param maximumInstances int

@description('Memory of an instance, in MB.')
@allowed([512, 2048, 4096])
param instanceMemory int

@description('Resource id of the subnet that the app sends through, or nothing.')
param subnetId string

// In zones, Azure refuses a single always-ready instance of a group, and keeps two where none is asked for.
var ready = zoneRedundant ? max(alwaysReadyInstances, 2) : alwaysReadyInstances
var readyHttp = zoneRedundant ? max(alwaysReadyHttpInstances, 2) : alwaysReadyHttpInstances

resource plan 'Microsoft.Web/serverfarms@2025-03-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
    zoneRedundant: zoneRedundant
  }
}

resource app 'Microsoft.Web/sites@2025-03-01' = {
  name: name
  location: location
  // azd finds by this tag where a service of azure.yaml goes.
  tags: union(tags, { 'azd-service-name': service })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identityId}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    keyVaultReferenceIdentity: identityId
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: packageContainerUrl
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      runtime: {
        name: 'python'
        version: '3.13'
      }
      scaleAndConcurrency: {
        alwaysReady: concat(
          hasTaskHub && ready > 0 ? [{ name: 'durable', instanceCount: ready }] : [],
          hasHttp && readyHttp > 0 ? [{ name: 'http', instanceCount: readyHttp }] : []
        )
        instanceMemoryMB: instanceMemory
        maximumInstanceCount: maximumInstances
        // Without it, Python gets one request at a time for each instance, and parallel requests wait for new instances.
        // One takes about 2 ms of CPU and waits 30 to 100 ms for queue or table, so 50 fill the core of a 2,048 MB instance.
        triggers: {
          http: {
            perInstanceConcurrency: requestsAtOnce
          }
        }
      }
    }
    // What means nothing on Flex Consumption (alwaysOn, ftpsState, linuxFxVersion …) is refused, not ignored.
    siteConfig: {
      cors: {
        allowedOrigins: []
      }
      http20Enabled: true
      minTlsVersion: '1.2'
      remoteDebuggingEnabled: false
      scmMinTlsVersion: '1.2'
    }
  }
}

resource ftpPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2025-03-01' = {
  parent: app
  name: 'ftp'
  properties: {
    allow: false
  }
}

resource deploymentPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2025-03-01' = {
  parent: app
  name: 'scm'
  properties: {
    allow: false
  }
}

@description('Name of the app.')
output name string = app.name

@description('Host name that callers reach the app at.')
output hostName string = app.properties.defaultHostName
