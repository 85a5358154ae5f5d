// The virtual network: one subnet that the app sends through, one for the private endpoints of what it sends to.

import { EndpointTarget } from 'private-endpoints.bicep'

@description('Name of the network.')
param name string

@description('Region of the network.')
param location string

@description('Tags of the network.')
param tags object

@description('What private endpoints are made for.')
param targets EndpointTarget[]

resource network 'Microsoft.Network/virtualNetworks@2025-09-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: ['10.0.0.0/23']
    }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: '10.0.0.0/24'
          // The subscription must know the resource provider Microsoft.App, of which nothing else is used.
          delegations: [
            {
              name: 'flex-consumption'
              properties: {
                serviceName: 'Microsoft.App/environments'
              }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: '10.0.1.0/24'
        }
      }
    ]
  }
}

resource appSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-09-01' existing = {
  parent: network
  name: 'app'
}

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
    targets: targets
  }
}

@description('Resource id of the subnet that the app sends through.')
output appSubnetId string = appSubnet.id
