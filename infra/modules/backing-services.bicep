// What all apps share: telemetry, the state store, queues, and where Durable Functions keeps its state.

import { LogChoices } from 'log-choices.bicep'
import { EndpointTarget } from 'private-endpoints.bicep'

@description('Names of the resources (names.bicep).')
param names object

@description('Region of all resources.')
param location string

@description('Tags of all resources.')
param tags object

@description('Replication of the state store.')
@allowed(['LRS', 'ZRS', 'GRS', 'GZRS'])
param redundancy string

@description('Whether everything is reached through private endpoints only.')
param private bool

@description('Whether Durable Functions keeps its state in a Durable Task Scheduler.')
param useScheduler bool

@description('Hours for which the app keeps tasks beyond those for which the event hub keeps events, and a day: a replay must find what was done. If they are negative, raise application.retentionDays. Null without a hub.')
@minValue(0)
param spareHours int?

@description('Tables of the sample services, or none.')
param sampleTables string[]

@description('Whether each role is an app of its own: then the Agents\' tables have an account of their own.')
param hasAgentStorage bool

@description('What is logged, and for how long.')
param logs LogChoices

// One app with all roles makes these too, when they are missing: functions/table_accounts.py.
var stateTables = ['Tasks', 'Rejected']
var agentTables = ['AgentRequests']
var useEventHub = spareHours != null

module monitoring 'monitoring.bicep' = {
  name: 'monitoring'
  params: {
    workspaceName: names.logs
    componentName: names.insights
    location: location
    tags: tags
    retentionInDays: logs.?retentionDays ?? 30
    auditRetentionInDays: logs.?auditRetentionDays ?? 365
    dailyGigabytes: logs.?dailyGigabytes ?? 10
  }
}

// An account for nothing but the state store: a role on it is a role on its tables, and the app can make them itself.
module stateStorage 'storage-account.bicep' = {
  name: 'state-storage'
  params: {
    name: names.stateStorage
    location: location
    tags: tags
    redundancy: redundancy
    private: private
    tables: concat(stateTables, hasAgentStorage ? [] : agentTables, sampleTables)
  }
}

module agentStorage 'storage-account.bicep' = if (hasAgentStorage) {
  name: 'agent-storage'
  params: {
    name: names.agentStorage
    location: location
    tags: tags
    redundancy: redundancy
    private: private
    tables: agentTables
  }
}

module serviceBus 'service-bus.bicep' = {
  name: 'service-bus'
  params: {
    name: names.serviceBus
    location: location
    tags: tags
    private: private
  }
}

module eventHubs 'event-hubs.bicep' = if (useEventHub) {
  name: 'event-hubs'
  params: {
    name: names.eventHubs
    location: location
    tags: tags
    private: private
  }
}

module durableScheduler 'durable-scheduler.bicep' = if (useScheduler) {
  name: 'durable-scheduler'
  params: {
    name: names.durableScheduler
    location: location
    tags: tags
    private: private
  }
}

module diagnostics 'diagnostics.bicep' = {
  name: 'diagnostics'
  params: {
    workspaceId: monitoring.outputs.workspaceId
    serviceBusName: names.serviceBus
    tableStorageNames: concat([names.stateStorage], hasAgentStorage ? [names.agentStorage] : [])
    stateAccess: logs.?stateAccess ?? false
  }
  // What it watches has to be there.
  dependsOn: [serviceBus, stateStorage, agentStorage]
}

@description('Resource id of the Log Analytics workspace.')
output workspaceId string = monitoring.outputs.workspaceId

@description('Resource id of the Application Insights component.')
output componentId string = monitoring.outputs.componentId

@description('Resource id of the Service Bus namespace.')
output serviceBusId string = serviceBus.outputs.id

@description('Host name of the Service Bus namespace.')
output serviceBusHostName string = serviceBus.outputs.hostName

@description('Resource id of the Event Hubs namespace, or nothing.')
output eventHubsId string = eventHubs.?outputs.?id ?? ''

@description('Host name of the Event Hubs namespace, or nothing.')
output eventHubsHostName string = eventHubs.?outputs.?hostName ?? ''

@description('Address of the tables of the state store.')
output stateTableEndpoint string = stateStorage.outputs.endpoints.table

@description('Address of the tables of the Agents\' own account, or nothing.')
output agentTableEndpoint string = agentStorage.?outputs.?endpoints.?table ?? ''

@description('Address of the Durable Task Scheduler, or nothing.')
output durableSchedulerEndpoint string = durableScheduler.?outputs.?endpoint ?? ''

@description('Task hub in the Durable Task Scheduler, or nothing.')
output durableTaskHub string = durableScheduler.?outputs.?taskHub ?? ''

@description('Targets of the private endpoints.')
output endpointTargets EndpointTarget[] = concat(
  [
    { name: 'pe-service-bus', resourceId: serviceBus.outputs.id, group: 'namespace' }
    { name: 'pe-state-table', resourceId: stateStorage.outputs.id, group: 'table' }
  ],
  hasAgentStorage ? [{ name: 'pe-agent-table', resourceId: agentStorage.?outputs.?id ?? '', group: 'table' }] : [],
  useEventHub ? [{ name: 'pe-event-hubs', resourceId: eventHubs.?outputs.?id ?? '', group: 'namespace' }] : [],
  useScheduler
    ? [{ name: 'pe-durable-scheduler', resourceId: durableScheduler.?outputs.?id ?? '', group: 'scheduler' }]
    : []
)
