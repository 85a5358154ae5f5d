// The Event Hubs namespace, and the hubs that infra/hubs.json lists.

@description('Name of the namespace.')
@minLength(6)
@maxLength(50)
param name string

@description('Region of the namespace.')
param location string

@description('Tags of the namespace.')
param tags object

@description('Whether the namespace is reached through a private endpoint only.')
param private bool

var hubs = loadJsonContent('../hubs.json').hubs
var consumerGroups = flatten(map(
  range(0, length(hubs)),
  number => map(hubs[number].consumerGroups, groupName => { hub: number, name: groupName })
))

resource namespace 'Microsoft.EventHub/namespaces@2026-01-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: 'Standard'
    tier: 'Standard'
    capacity: 1
  }
  properties: {
    disableLocalAuth: true
    // It grows by itself, and never shrinks.
    isAutoInflateEnabled: true
    maximumThroughputUnits: 10
    minimumTlsVersion: '1.2'
    publicNetworkAccess: private ? 'Disabled' : 'Enabled'
  }
}

// The Standard tier can't change the number of partitions later.
resource hub 'Microsoft.EventHub/namespaces/eventhubs@2026-01-01' = [
  for each in hubs: {
    parent: namespace
    name: each.name
    properties: {
      partitionCount: each.partitionCount
      retentionDescription: {
        cleanupPolicy: 'Delete'
        retentionTimeInHours: each.retentionHours
      }
    }
  }
]

resource consumerGroup 'Microsoft.EventHub/namespaces/eventhubs/consumergroups@2026-01-01' = [
  for each in consumerGroups: {
    parent: hub[each.hub]
    name: each.name
  }
]

@description('Resource id of the namespace.')
output id string = namespace.id

@description('Host name of the namespace.')
output hostName string = '${namespace.name}.servicebus.windows.net'
