// The apps: one with all roles, or one for each; what each stands on, the network that they send through, their locks.

import { ApplicationSettings } from 'application-settings.bicep'
import { appNamesOf } from 'names.bicep'
import { EndpointTarget } from 'private-endpoints.bicep'

@description('The apps, as infra/roles.json describes them: the first serves callers, the last operators.')
@minLength(1)
@maxLength(4)
param apps object[]

@description('Names of the resources (names.bicep).')
param names object

@description('Region of everything here.')
param location string

@description('Tags of everything here.')
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

@description('Tables of the sample services, or none.')
param sampleTables string[]

@description('Whether there are sample remote services, and Agents call them.')
param sampleServices bool

@description('The key of the sample services, or nothing if the vaults have it.')
@secure()
param sampleServicesKey string

@description('Whether nobody may purge the vaults.')
param purgeProtection bool

@description('Whether what holds data has locks against being deleted.')
param locked bool

@description('Address that alerts are posted to, or nothing.')
@secure()
param alertWebhookUrl string

@description('What private endpoints have to lead to, beside what is one app\'s own.')
param endpointTargets EndpointTarget[]

@description('Address of the tables of the state store.')
param stateTableEndpoint string

@description('Address of the tables of the Agents\' own account, or nothing.')
param agentTableEndpoint string

@description('Host name of the Service Bus namespace.')
param serviceBusHostName string

@description('Host name of the Event Hubs namespace, or nothing.')
param eventHubsHostName string

@description('Address of the Durable Task Scheduler, or nothing.')
param durableSchedulerEndpoint string

@description('Task hub in the Durable Task Scheduler, or nothing.')
param durableTaskHub string

@description('Instances that are always ready for the Scheduler and its Agents.')
@minValue(0)
@maxValue(20)
param alwaysReadyInstances int

@description('Instances that are always ready for HTTP.')
@minValue(0)
@maxValue(20)
param alwaysReadyHttpInstances int

@description('Whether apps run in three zones.')
param zoneRedundant bool

@description('Requests that an instance answers at once.')
@minValue(1)
@maxValue(1000)
param requestsAtOnce int

@description('The most instances that each app may grow to.')
@minValue(40)
@maxValue(1000)
param maximumInstances int

@description('Memory of an instance, in MB.')
@allowed([512, 2048, 4096])
param instanceMemory int

@description('Resource id of a subnet of another network that the Agents\' own app sends through, or nothing.')
param agentsSubnetId string

@description('Client id of the app registration for sign-in, or nothing.')
@maxLength(36)
param signInClientId string

@description('Address of the service behind each Agent, and the reference to its key if it asks for one, by their settings.')
param agentSettings object

@description('The application\'s own settings.')
param application ApplicationSettings

var isWhole = length(apps) == 1

module bases 'app-base.bicep' = [
  for app in apps: {
    name: 'base-${app.service}'
    params: {
      app: app
      names: names
      location: location
      tags: tags
      redundancy: redundancy
      private: private
      isWhole: isWhole
      useScheduler: useScheduler
      useEventHub: useEventHub
      sampleTables: sampleTables
      sampleServicesKey: sampleServicesKey
      purgeProtection: purgeProtection
      alertWebhookUrl: alertWebhookUrl
    }
  }
]

module network 'network.bicep' = if (private) {
  name: 'network'
  params: {
    name: names.network
    location: location
    tags: tags
    appSubnets: map(apps, app => (app.service))
    targets: endpointTargets
    targetsOfApps: [for (app, index) in apps: bases[index].outputs.endpointTargets]
  }
}

module applications 'application.bicep' = [
  for (app, index) in apps: {
    name: 'application-${app.service}'
    params: {
      app: app
      names: names
      location: location
      tags: tags
      identityId: bases[index].outputs.identityId
      packageContainerUrl: bases[index].outputs.packageContainerUrl
      alwaysReadyInstances: alwaysReadyInstances
      alwaysReadyHttpInstances: alwaysReadyHttpInstances
      zoneRedundant: zoneRedundant
      requestsAtOnce: requestsAtOnce
      maximumInstances: maximumInstances
      instanceMemory: instanceMemory
      subnetId: app.service == 'agents' && !empty(agentsSubnetId) ? agentsSubnetId : (network.?outputs.?appSubnetIds[index] ?? '')
      signInClientId: signInClientId
      sampleServices: sampleServices
    }
  }
]

module settings 'app-settings.bicep' = [
  for (app, index) in apps: {
    name: 'settings-${app.service}'
    params: {
      app: app
      appName: applications[index].outputs.name
      identityClientId: bases[index].outputs.identityClientId
      hostStorageEndpoints: bases[index].outputs.hostStorageEndpoints
      stateTableEndpoint: stateTableEndpoint
      agentTableEndpoint: agentTableEndpoint
      serviceBusHostName: serviceBusHostName
      eventHubsHostName: eventHubsHostName
      componentName: names.insights
      durableSchedulerEndpoint: durableSchedulerEndpoint
      durableTaskHub: durableTaskHub
      signIn: !empty(signInClientId)
      requestsAtOnce: requestsAtOnce
      servicesHostName: applications[0].outputs.hostName
      sampleServices: sampleServices
      agentSettings: agentSettings
      vaultUri: bases[index].outputs.vaultUri
      sampleServicesKeyInVault: bases[index].outputs.sampleServicesKeyInVault
      alertWebhookInVault: bases[index].outputs.alertWebhookInVault
      application: application
    }
  }
]

module locks 'locks.bicep' = if (locked) {
  name: 'locks'
  params: {
    storageAccountNames: concat(
      map(apps, app => (appNamesOf(names.token, app.mark).hostStorage)),
      [names.stateStorage],
      isWhole ? [] : [names.agentStorage]
    )
    serviceBusName: names.serviceBus
    eventHubsName: useEventHub ? names.eventHubs : ''
    vaultNames: map(apps, app => (appNamesOf(names.token, app.mark).vault))
  }
  // What it locks has to be there.
  dependsOn: [bases]
}

@description('Names of the apps, in their order.')
output names string[] = [for (app, index) in apps: applications[index].outputs.name]

@description('Host names of the apps, in their order.')
output hostNames string[] = [for (app, index) in apps: applications[index].outputs.hostName]
