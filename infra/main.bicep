// Everything that `azd up` makes: one resource group, with all that the application needs and nothing to click.

targetScope = 'subscription'

import { ApplicationSettings } from 'modules/application-settings.bicep'
import { LogChoices } from 'modules/log-choices.bicep'
import { namesOf } from 'modules/names.bicep'
import { regionsWithZones } from 'modules/regions.bicep'

@description('Name of the azd environment; resources of different environments share nothing.')
@minLength(1)
@maxLength(64)
param environmentName string

@description('Region of all resources: one that has Flex Consumption. Not each of them has the Durable Task Scheduler.')
@allowed([
  'australiaeast'
  'australiasoutheast'
  'brazilsouth'
  'canadacentral'
  'centralindia'
  'centralus'
  'eastasia'
  'eastus'
  'eastus2'
  'francecentral'
  'germanywestcentral'
  'italynorth'
  'japaneast'
  'koreacentral'
  'northcentralus'
  'northeurope'
  'norwayeast'
  'southafricanorth'
  'southcentralus'
  'southeastasia'
  'southindia'
  'spaincentral'
  'swedencentral'
  'uaenorth'
  'uksouth'
  'ukwest'
  'westcentralus'
  'westeurope'
  'westus'
  'westus2'
  'westus3'
])
@metadata({
  azd: {
    type: 'location'
  }
})
param location string

@description('One app with all roles, or an app for each: infra/roles.json says what each of them may do.')
@allowed(['all', 'split'])
param roles string = 'all'

@description('Replication of the state store: in one zone, over zones, or to a second region as well. A region without zones has LRS and GRS instead of ZRS and GZRS.')
@allowed(['LRS', 'ZRS', 'GZRS'])
param redundancy string = 'ZRS'

@description('Where Durable Functions keeps its state: in the host\'s storage account, or in a Durable Task Scheduler.')
@allowed(['storage', 'scheduler'])
param durableBackend string = 'storage'

@description('Whether orders come through an event hub, too: from producers that publish to it.')
param eventHub bool = false

@description('Whether the app runs in three zones. Azure then keeps two instances always ready for each group of functions, and charges them.')
param zoneRedundant bool = false

@description('Instances that are always ready for the Scheduler and its Agents; each is paid for all the time.')
@minValue(0)
@maxValue(20)
param alwaysReadyInstances int = 1

@description('Instances that are always ready for HTTP: API, console and health; each is paid for all the time.')
@minValue(0)
@maxValue(20)
param alwaysReadyHttpInstances int = 0

@description('Requests that an instance answers at once, before there is another; also the most that one caller may have there.')
@minValue(1)
@maxValue(1000)
param requestsAtOnce int = 50

@description('The most instances that the app may grow to. The subscription\'s quota for the region can be less.')
@minValue(40)
@maxValue(1000)
param maximumInstances int = 40

@description('Memory of an instance, in MB.')
@allowed([512, 2048, 4096])
param instanceMemory int = 2048

@description('Whether storage, Service Bus and vault are reached through a virtual network only (makes Service Bus Premium).')
param privateNetwork bool = false

@description('Resource id of a subnet of another network that the Agents\' app sends through, where it is an app of its own; delegated to Microsoft.App/environments.')
param agentsSubnetId string = ''

@description('Client id of an Entra ID app registration with the roles of infra/app-roles.json; callers then need its tokens.')
@maxLength(36)
param signInClientId string = ''

@description('Whether the app serves sample remote services, so that it can be tried at once.')
param sampleServices bool = true

@description('The key of the sample services, the first time; left out later, the vault\'s stays. The hook infra/hooks/preprovision makes it.')
@secure()
param sampleServicesKey string = ''

@description('Whether the vault, and what was deleted in it, can\'t be purged for its 7 days, by nobody. Can\'t be taken back.')
param purgeProtection bool = false

@description('Whether storage, Service Bus and vault have locks against being deleted.')
param locked bool = false

@description('Settings of Agents, such as { PAYMENT_URL: \'https://…\', PAYMENT_SCOPE: \'api://…/.default\' }, or with PAYMENT_KEY: \'@Microsoft.KeyVault(SecretUri=https://…)\'; AGENT_PAYMENT_AT_ONCE: \'10\' limits its calls.')
param agentSettings object = {}

@description('The application\'s own settings; what is left out has its default.')
param application ApplicationSettings = {}

@description('E-mail addresses that alerts and the budget are told to.')
@maxLength(20)
param alertEmails array = []

@description('Address that alerts are posted to (a Teams or a plain webhook), or nothing.')
@secure()
param alertWebhookUrl string = ''

@description('What is logged, and for how long.')
param logs LogChoices = { auditRetentionDays: 365, dailyGigabytes: 10, stateAccess: false }

@description('Monthly budget in the currency of the subscription, or 0 for none; it needs budgetStart and alertEmails.')
@minValue(0)
param monthlyBudget int = 0

@description('First day of the month in which the budget is made, such as 2026-11-01. Azure lets nobody change it later.')
@maxLength(10)
param budgetStart string = ''

var names = namesOf(environmentName, uniqueString(subscription().id, environmentName, location))
var tags = { 'azd-env-name': environmentName }
var useScheduler = durableBackend == 'scheduler'
var replication = contains(regionsWithZones, location) ? redundancy : (redundancy == 'GZRS' ? 'GRS' : 'LRS')
var sampleTables = ['Accounts', 'ServiceFaults', 'Payments', 'Packages', 'Transports', 'Drones', 'Deliveries']
var tablesOfSamples = sampleServices ? sampleTables : []

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {
  name: names.resourceGroup
  location: location
  tags: tags
}

module backing 'modules/backing-services.bicep' = {
  name: 'backing-services'
  scope: group
  params: {
    names: names
    location: location
    tags: tags
    redundancy: replication
    private: privateNetwork
    useScheduler: useScheduler
    spareHours: eventHub ? (application.?retentionDays ?? 30) * 24 - 24 - (loadJsonContent('hubs.json').hubs[0].retentionHours) : null
    sampleTables: tablesOfSamples
    hasAgentStorage: roles == 'split'
    logs: logs
  }
}

module applications 'modules/applications.bicep' = {
  name: 'applications'
  scope: group
  params: {
    apps: filter(loadJsonContent('roles.json').apps, each => (each.deployed == roles))
    names: names
    location: location
    tags: tags
    redundancy: replication
    private: privateNetwork
    useScheduler: useScheduler
    useEventHub: eventHub
    sampleTables: tablesOfSamples
    sampleServices: sampleServices
    sampleServicesKey: sampleServicesKey
    purgeProtection: purgeProtection
    locked: locked
    alertWebhookUrl: alertWebhookUrl
    endpointTargets: backing.outputs.endpointTargets
    stateTableEndpoint: backing.outputs.stateTableEndpoint
    agentTableEndpoint: backing.outputs.agentTableEndpoint
    serviceBusHostName: backing.outputs.serviceBusHostName
    eventHubsHostName: backing.outputs.eventHubsHostName
    durableSchedulerEndpoint: backing.outputs.durableSchedulerEndpoint
    durableTaskHub: backing.outputs.durableTaskHub
    // The scale controller wakes no instance for a Durable Task Scheduler that host.json does not name.
    alwaysReadyInstances: useScheduler ? max(alwaysReadyInstances, 1) : alwaysReadyInstances
    alwaysReadyHttpInstances: alwaysReadyHttpInstances
    zoneRedundant: zoneRedundant
    requestsAtOnce: requestsAtOnce
    maximumInstances: maximumInstances
    instanceMemory: instanceMemory
    agentsSubnetId: agentsSubnetId
    signInClientId: signInClientId
    agentSettings: agentSettings
    application: application
  }
}

module watching 'modules/watching/watching.bicep' = {
  name: 'watching'
  scope: group
  params: {
    location: location
    tags: tags
    workspaceId: backing.outputs.workspaceId
    componentId: backing.outputs.componentId
    namespaceId: backing.outputs.serviceBusId
    eventHubsId: backing.outputs.eventHubsId
    prefix: names.alerts
    alertEmails: alertEmails
    alertWebhookUrl: alertWebhookUrl
    workbookName: names.workbook
    budgetName: names.budget
    monthlyBudget: monthlyBudget
    budgetStart: budgetStart
  }
}

@description('Name of the resource group.')
output AZURE_RESOURCE_GROUP string = group.name

@description('Name of the function app.')
output AZURE_FUNCTION_NAME string = applications.outputs.names[0]

@description('Replication that the state store has.')
output STATE_STORE_REPLICATION string = replication

@description('Whose vaults have the key of the sample services: all, split or nothing; the hook infra/hooks/preprovision then makes no other.')
output SAMPLE_SERVICES_KEY_MADE string = sampleServices ? roles : ''

@description('Name of the function app that operators use: with an app for each role, the last.')
output AZURE_OPERATORS_FUNCTION_NAME string = last(applications.outputs.names)

@description('Address of that app; the console is at api/ops.')
output OPERATORS_APP_URI string = 'https://${last(applications.outputs.hostNames)}'

@description('Address of the application.')
output SERVICE_APP_URI string = 'https://${applications.outputs.hostNames[0]}'
