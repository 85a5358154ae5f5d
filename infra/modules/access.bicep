// What one app may do with what all apps share, as infra/roles.json says: nobody else has roles there.

import { kindOf, roles } from 'roles.bicep'

@description('The app, as infra/roles.json describes it.')
param app object

@description('The app\'s identity.')
param principalId string

@description('Names of the resources (names.bicep).')
param names object

@description('Whether the app has the account of the state store whole, and can make its tables itself.')
param wholeAccount bool

@description('Tables of the sample services, if the app serves them.')
param sampleTables string[]

@description('Whether Durable Functions keeps its state in a Durable Task Scheduler.')
param useScheduler bool

@description('Whether orders come through an event hub, too.')
param useEventHub bool

var queues = loadJsonContent('../queues.json').queues
var hubs = loadJsonContent('../hubs.json').hubs
var accountNames = wholeAccount ? [names.stateStorage] : [names.stateStorage, names.agentStorage]

// The Agents' tables lie in the second account, all others in the first.
var reached = concat(
  map(concat(app.tables, sampleTables), each => { account: 0, table: each }),
  map(app.agentTables, each => { account: 1, table: each })
)

resource account 'Microsoft.Storage/storageAccounts@2026-04-01' existing = [
  for accountName in accountNames: {
    name: accountName
  }
]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2026-04-01' existing = [
  for (accountName, index) in accountNames: {
    parent: account[index]
    name: 'default'
  }
]

resource table 'Microsoft.Storage/storageAccounts/tableServices/tables@2026-04-01' existing = [
  for each in (wholeAccount ? [] : reached): {
    parent: tableService[each.account]
    name: each.table
  }
]

resource onAccount 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (wholeAccount) {
  name: guid(account[0].id, principalId, roles.storageTableDataContributor)
  scope: account[0]
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.storageTableDataContributor)
    principalId: principalId
    principalType: 'ServicePrincipal'
    description: '${app.service}: all tables'
  }
}

resource onTables 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in (wholeAccount ? [] : reached): {
    name: guid(table[index].id, principalId, roles.storageTableDataContributor)
    scope: table[index]
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.storageTableDataContributor)
      principalId: principalId
      principalType: 'ServicePrincipal'
      description: '${app.service}: ${each.table}'
    }
  }
]

resource namespace 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: names.serviceBus
}

resource queue 'Microsoft.ServiceBus/namespaces/queues@2026-01-01' existing = [
  for each in queues: {
    parent: namespace
    name: each.name
  }
]

resource sender 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in queues: if (contains(app.sends, kindOf(each.name))) {
    name: guid(queue[index].id, principalId, roles.serviceBusDataSender)
    scope: queue[index]
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.serviceBusDataSender)
      principalId: principalId
      principalType: 'ServicePrincipal'
      description: '${app.service}: sends'
    }
  }
]

// From its reply queues the app takes only what died there: a dead-letter queue has its queue's roles.
resource receiver 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in queues: if (contains(app.receives, kindOf(each.name))) {
    name: guid(queue[index].id, principalId, roles.serviceBusDataReceiver)
    scope: queue[index]
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.serviceBusDataReceiver)
      principalId: principalId
      principalType: 'ServicePrincipal'
      description: '${app.service}: receives'
    }
  }
]

resource hubNamespace 'Microsoft.EventHub/namespaces@2026-01-01' existing = if (useEventHub) {
  name: names.eventHubs
}

resource hub 'Microsoft.EventHub/namespaces/eventhubs@2026-01-01' existing = [
  for each in hubs: if (useEventHub) {
    parent: hubNamespace
    name: each.name
  }
]

resource hubReceiver 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in (app.readsHub && useEventHub ? hubs : []): {
    name: guid(hub[index].id, principalId, roles.eventHubsDataReceiver)
    scope: hub[index]
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.eventHubsDataReceiver)
      principalId: principalId
      principalType: 'ServicePrincipal'
      description: '${app.service}: receives'
    }
  }
]

resource durableScheduler 'Microsoft.DurableTask/schedulers@2026-02-01' existing = if (useScheduler) {
  name: names.durableScheduler
}

resource taskHub 'Microsoft.DurableTask/schedulers/taskHubs@2026-02-01' existing = if (useScheduler) {
  parent: durableScheduler
  name: 'tasks'
}

resource taskHubUser 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (app.taskHub && useScheduler) {
  name: guid(taskHub.id, principalId, roles.durableTaskDataContributor)
  scope: taskHub
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.durableTaskDataContributor)
    principalId: principalId
    principalType: 'ServicePrincipal'
    description: '${app.service}: Schedulers'
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' existing = {
  name: names.insights
}

resource publisher 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(component.id, principalId, roles.monitoringMetricsPublisher)
  scope: component
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.monitoringMetricsPublisher)
    principalId: principalId
    principalType: 'ServicePrincipal'
    description: '${app.service}: telemetry'
  }
}
