// The virtual network: a subnet that each app sends through, one for the private endpoints of what it sends to.

import { EndpointTarget } from 'private-endpoints.bicep'

@description('Name of the network.')
param name string

@description('Region of the network.')
param location string

@description('Tags of the network.')
param tags object

@description('Names of the subnets that apps send through.')
@minLength(1)
@maxLength(4)
param appSubnets string[]

@description('What private endpoints are made for.')
param targets EndpointTarget[]

@description('The same for what is one app\'s own, by app.')
param targetsOfApps EndpointTarget[][]

// The subscription must know the resource provider Microsoft.App, of which nothing else is used.
var delegations = [
  {
    name: 'flex-consumption'
    properties: {
      serviceName: 'Microsoft.App/environments'
    }
  }
]
var isOnly = length(appSubnets) == 1

resource network 'Microsoft.Network/virtualNetworks@2025-09-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: ['10.0.0.0/23']
    }
    subnets: concat(
      map(range(0, length(appSubnets)), number => {
        name: appSubnets[number]
        properties: {
          addressPrefix: isOnly ? '10.0.0.0/24' : '10.0.0.${number * 64}/26'
          delegations: delegations
        }
      }),
      [
        {
          name: 'endpoints'
          properties: {
            addressPrefix: '10.0.1.0/24'
          }
        }
      ]
    )
  }
}

resource appSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-09-01' existing = [
  for subnet in appSubnets: {
    parent: network
    name: subnet
  }
]

resource endpointSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-09-01' existing = {
  parent: network
  name: 'endpoints'
}

module privateEndpoints 'private-endpoints.bicep' = {
  name: 'private-endpoints'
  params: {
    location: location
    tags: tags
    networkId: network.id
    subnetId: endpointSubnet.id
    targets: concat(targets, flatten(targetsOfApps))
  }
}

@description('Resource ids of the subnets that apps send through, in their order.')
output appSubnetIds string[] = [for (subnet, index) in appSubnets: appSubnet[index].id]
