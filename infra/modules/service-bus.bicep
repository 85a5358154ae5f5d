// The Service Bus namespace, the queues that infra/queues.json lists, and what the app may do with each of them.

import { roles } from 'roles.bicep'

@description('Name of the namespace.')
@minLength(6)
@maxLength(50)
param name string

@description('Region of the namespace.')
param location string

@description('Tags of the namespace.')
param tags object

@description('Whether the namespace is reached through a private endpoint only. That needs the Premium tier, and a tier can\'t be changed later.')
param private bool

@description('The app that sends and receives.')
param principalId string

var queues = loadJsonContent('../queues.json').queues
var tier = private ? 'Premium' : 'Standard'

resource namespace 'Microsoft.ServiceBus/namespaces@2026-01-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: tier
    tier: tier
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    publicNetworkAccess: private ? 'Disabled' : 'Enabled'
  }
}

resource queue 'Microsoft.ServiceBus/namespaces/queues@2026-01-01' = [
  for each in queues: {
    parent: namespace
    name: each.name
    properties: each.properties
  }
]

// The app sends to every queue: orders, requests, replies of its own Agents, alerts, and notices to callers.
resource sender 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in queues: {
    name: guid(queue[index].id, principalId, roles.serviceBusDataSender)
    scope: queue[index]
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.serviceBusDataSender)
      principalId: principalId
      principalType: 'ServicePrincipal'
    }
  }
]

// The app receives from every queue, from its reply queues only what died there: a dead-letter queue has its queue's roles.
resource receiver 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in queues: {
    name: guid(queue[index].id, principalId, roles.serviceBusDataReceiver)
    scope: queue[index]
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.serviceBusDataReceiver)
      principalId: principalId
      principalType: 'ServicePrincipal'
    }
  }
]

@description('Resource id of the namespace.')
output id string = namespace.id

@description('Host name of the namespace.')
output hostName string = '${namespace.name}.servicebus.windows.net'
