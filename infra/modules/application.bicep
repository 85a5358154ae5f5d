// One app: its plan, its functions, and sign-in before them. Its settings are in app-settings.bicep.

import { appNamesOf } from 'names.bicep'

@description('The app, as infra/roles.json describes it.')
param app object

@description('Names of the resources (names.bicep).')
param names object

@description('Region of the app.')
param location string

@description('Tags of the app.')
param tags object

@description('Resource id of the app\'s identity.')
param identityId string

@description('Address of the blob container that holds the package.')
param packageContainerUrl string

@description('Resource id of the subnet that the app sends through, or nothing.')
param subnetId string

@description('Instances that are always ready for the Scheduler and its Agents (orchestrations and activities).')
@minValue(0)
@maxValue(20)
param alwaysReadyInstances int

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

@description('Client id of the app registration for sign-in, or nothing.')
@maxLength(36)
param signInClientId string

@description('Whether there are sample remote services.')
param sampleServices bool

var own = appNamesOf(names.token, app.mark)

module functionApp 'function-app.bicep' = {
  name: 'function-app${own.suffix}'
  params: {
    planName: own.plan
    name: own.app
    location: location
    tags: tags
    service: app.service
    identityId: identityId
    packageContainerUrl: packageContainerUrl
    alwaysReadyInstances: alwaysReadyInstances
    alwaysReadyHttpInstances: alwaysReadyHttpInstances
    hasTaskHub: app.taskHub
    hasHttp: app.http
    zoneRedundant: zoneRedundant
    requestsAtOnce: requestsAtOnce
    maximumInstances: maximumInstances
    instanceMemory: instanceMemory
    subnetId: subnetId
  }
}

module signIn 'sign-in.bicep' = if (!empty(signInClientId)) {
  name: 'sign-in${own.suffix}'
  params: {
    appName: functionApp.outputs.name
    clientId: signInClientId
    sampleServices: app.servesSamples && sampleServices
  }
}

@description('Name of the app.')
output name string = functionApp.outputs.name

@description('Host name that callers reach the app at.')
output hostName string = functionApp.outputs.hostName
