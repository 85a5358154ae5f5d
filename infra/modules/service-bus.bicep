// The Service Bus namespace, and the queues that infra/queues.json lists.

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

@description('Resource id of the namespace.')
output id string = namespace.id

@description('Host name of the namespace.')
output hostName string = '${namespace.name}.servicebus.windows.net'
