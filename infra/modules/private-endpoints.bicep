// A private endpoint for each service that the app uses, and the DNS zones in which the network finds them.

@export()
@description('What a private endpoint leads to.')
type EndpointTarget = {
  @description('Name of the endpoint.')
  name: string

  @description('Resource id of what it leads to.')
  resourceId: string

  @description('Which of the resource\'s services.')
  group: ('blob' | 'queue' | 'table' | 'namespace' | 'scheduler' | 'vault')
}

@description('Region of the endpoints.')
param location string

@description('Tags of endpoints and zones.')
param tags object

@description('Resource id of the network.')
param networkId string

@description('Resource id of the subnet of the endpoints.')
param subnetId string

@description('What endpoints are made for.')
param targets EndpointTarget[]

var zones = {
  blob: 'privatelink.blob.${environment().suffixes.storage}'
  queue: 'privatelink.queue.${environment().suffixes.storage}'
  table: 'privatelink.table.${environment().suffixes.storage}'
  namespace: 'privatelink.servicebus.windows.net'
  scheduler: 'privatelink.durabletask.io'
  vault: 'privatelink.vaultcore.azure.net'
}
var zoneNames = [for zoneOfGroup in items(zones): zoneOfGroup.value]

resource zone 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for zoneName in zoneNames: {
    name: zoneName
    location: 'global'
    tags: tags
  }
]

resource link 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (zoneName, index) in zoneNames: {
    parent: zone[index]
    name: 'network'
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: {
        id: networkId
      }
    }
  }
]

// One after the other: a storage account, and the subnet, refuse a second endpoint while they take a first one.
@batchSize(1)
resource endpoint 'Microsoft.Network/privateEndpoints@2025-09-01' = [
  for target in targets: {
    name: target.name
    location: location
    tags: tags
    properties: {
      subnet: {
        id: subnetId
      }
      privateLinkServiceConnections: [
        {
          name: target.group
          properties: {
            privateLinkServiceId: target.resourceId
            groupIds: [target.group]
          }
        }
      ]
    }
  }
]

resource zoneGroup 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-09-01' = [
  for (target, index) in targets: {
    parent: endpoint[index]
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        {
          name: target.group
          properties: {
            privateDnsZoneId: resourceId('Microsoft.Network/privateDnsZones', zones[target.group])
          }
        }
      ]
    }
    dependsOn: [
      zone
    ]
  }
]
