// The Durable Task Scheduler, with one task hub: where Durable Functions keeps its state when it is not in storage.

@description('Name of the scheduler.')
@minLength(3)
@maxLength(64)
param name string

@description('Region of the scheduler.')
param location string

@description('Tags of the scheduler.')
param tags object

@description('Whether the scheduler is reached through a private endpoint only.')
param private bool

resource scheduler 'Microsoft.DurableTask/schedulers@2026-02-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'Consumption'
    }
    publicNetworkAccess: private ? 'Disabled' : 'Enabled'
    // An empty list lets nobody in. There are no keys: who comes from an allowed address still needs a role.
    ipAllowlist: private ? [] : ['0.0.0.0/0']
  }
}

resource taskHub 'Microsoft.DurableTask/schedulers/taskHubs@2026-02-01' = {
  parent: scheduler
  name: 'tasks'
  properties: {}
}

@description('Resource id of the scheduler.')
output id string = scheduler.id

@description('Address of the scheduler.')
output endpoint string = scheduler.properties.endpoint

@description('Name of the task hub.')
output taskHub string = taskHub.name
