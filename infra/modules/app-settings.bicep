// The function app's settings: what functions/settings.py reads, and what the Functions host and its extensions read.

import { ApplicationSettings, settingsOf } from 'application-settings.bicep'
import { kindOf } from 'roles.bicep'

@description('Names the settings of Agents, by their names.')
func settingsOfAgents(agents string[]) string[] =>
  flatten(map(agents, each => [
    '${toUpper(replace(each, '-', '_'))}_URL'
    '${toUpper(replace(each, '-', '_'))}_KEY'
    '${toUpper(replace(each, '-', '_'))}_HEADER'
    '${toUpper(replace(each, '-', '_'))}_SCOPE'
    'AGENT_${toUpper(replace(each, '-', '_'))}_AT_ONCE'
  ]))

@description('The app, as infra/roles.json describes it.')
param app object

@description('Name of the function app.')
param appName string

@description('Client id of the app\'s identity.')
param identityClientId string

@description('Addresses of the host\'s storage account, by service.')
param hostStorageEndpoints object

@description('Address of the tables of the state store.')
param stateTableEndpoint string

@description('Address of the tables of the Agents\' own account, or nothing.')
param agentTableEndpoint string

@description('Host name of the Service Bus namespace.')
param serviceBusHostName string

@description('Host name of the Event Hubs namespace; without it, no orders come through an event hub.')
param eventHubsHostName string

@description('Name of the Application Insights component.')
param componentName string

@description('Address of the Durable Task Scheduler; without it, Durable Functions keeps its state in the host\'s storage.')
param durableSchedulerEndpoint string

@description('Task hub in the Durable Task Scheduler.')
param durableTaskHub string

@description('Whether the platform signs callers in, so that the headers that name them can be trusted.')
param signIn bool

@description('Requests that an instance answers at once.')
@minValue(1)
@maxValue(1000)
param requestsAtOnce int

@description('Host name of the app that serves the sample services.')
param servicesHostName string

@description('Whether there are sample remote services, and Agents call them.')
param sampleServices bool

@description('Address of the service behind each Agent, and the reference to its key if it asks for one, by their settings.')
param agentSettings object

@description('Address of the vault in which the host keeps the app\'s keys.')
param vaultUri string

@description('Where the vault has the key of the sample services, or nothing.')
param sampleServicesKeyInVault string

@description('Where the vault has the address that alerts are posted to, or nothing.')
param alertWebhookInVault string

@description('The application\'s own settings.')
param application ApplicationSettings

resource site 'Microsoft.Web/sites@2025-03-01' existing = {
  name: appName
}

resource component 'Microsoft.Insights/components@2020-02-02' existing = {
  name: componentName
}

var connectionSettings = {
  AzureWebJobsStorage__blobServiceUri: hostStorageEndpoints.blob
  AzureWebJobsStorage__queueServiceUri: hostStorageEndpoints.queue
  AzureWebJobsStorage__tableServiceUri: hostStorageEndpoints.table
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identityClientId
  AzureWebJobsSecretStorageType: 'keyvault'
  AzureWebJobsSecretStorageKeyVaultUri: vaultUri
  AzureWebJobsSecretStorageKeyVaultClientId: identityClientId
  ServiceBusConnection__fullyQualifiedNamespace: serviceBusHostName
  ServiceBusConnection__credential: 'managedidentity'
  ServiceBusConnection__clientId: identityClientId
  AGENTS_CLIENT_ID: identityClientId
  // No secret: the component takes no telemetry but by identity (DisableLocalAuth).
  APPLICATIONINSIGHTS_CONNECTION_STRING: component.properties.ConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
}

var agentStoreSettings = {
  AgentStore__tableServiceUri: agentTableEndpoint
  AgentStore__clientId: identityClientId
}

var hub = loadJsonContent('../hubs.json').hubs[0]
var eventHubSettings = {
  EventHubConnection__fullyQualifiedNamespace: eventHubsHostName
  EventHubConnection__credential: 'managedidentity'
  EventHubConnection__clientId: identityClientId
}
var stateSettings = {
  StateStore__tableServiceUri: stateTableEndpoint
  StateStore__clientId: identityClientId
}

// These stand for what host.json says under `durableTask` (Functions: override host.json values). The scale controller
// reads the file itself: to grow beyond the always-ready instances, write the same values into host.json.
var durableSchedulerSettings = {
  DURABLE_TASK_SCHEDULER_CONNECTION_STRING: 'Endpoint=${durableSchedulerEndpoint};Authentication=ManagedIdentity;ClientID=${identityClientId}'
  AzureFunctionsJobHost__extensions__durableTask__hubName: durableTaskHub
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__type: 'azureManaged'
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__connectionStringName: 'DURABLE_TASK_SCHEDULER_CONNECTION_STRING'
}

// The portal's page of log queries, with one for all spans and log lines of a trace: its id is their operation's.
var logsPage = '${environment().portal}/#@${tenant().tenantId}/blade/Microsoft_Azure_Monitoring_Logs/LogsBlade'
var logsOfComponent = '${logsPage}/resourceId/${uriComponent(component.id)}/source/LogsBlade.AnalyticsShareLinkToQuery/query'
var operationIs = uriComponent('union requests, dependencies, traces, exceptions | where operation_Id == ')

var chosenSettings = {
  ROLES: join(app.roles, ',')
  AUTH_MODE: signIn ? 'easyauth' : 'keys'
  ALERT_WEBHOOK_URL: empty(alertWebhookInVault) ? '' : '@Microsoft.KeyVault(SecretUri=${alertWebhookInVault})'
  // Less would refuse a caller before there is another instance; with function keys, all callers count as one.
  REQUESTS_IN_FLIGHT: string(requestsAtOnce)
  EVENT_HUB_NAME: hub.name
  EVENT_HUB_CONSUMER_GROUP: hub.consumerGroups[0]
  SAMPLE_SERVICES: app.servesSamples && sampleServices ? '1' : '0'
  TRACE_URL_TEMPLATE: '${logsOfComponent}/${operationIs}%22{trace_id}%22/timespan/P30D'
}

var servicesUrl = 'https://${servicesHostName}/api/services'
var servicesKey = '@Microsoft.KeyVault(SecretUri=${sampleServicesKeyInVault})'
var sampleAgentSettings = {
  PAYMENT_URL: '${servicesUrl}/payments'
  PAYMENT_KEY: servicesKey
  ACCOUNT_URL: '${servicesUrl}/accounts'
  ACCOUNT_KEY: servicesKey
  PACKAGE_URL: '${servicesUrl}/packages'
  PACKAGE_KEY: servicesKey
  TRANSPORT_URL: '${servicesUrl}/transports'
  TRANSPORT_KEY: servicesKey
  DRONE_URL: '${servicesUrl}/drones'
  DRONE_KEY: servicesKey
  DELIVERY_URL: '${servicesUrl}/deliveries'
  DELIVERY_KEY: servicesKey
}

// An app that serves queues gets no address and no key of an Agent of calls only. An app that makes the calls gets none
// of an Agent behind a queue only.
var requestQueues = filter(loadJsonContent('../queues.json').queues, each => (kindOf(each.name) == 'agent-requests'))
var queuedAgents = map(requestQueues, each => substring(each.name, 6, length(each.name) - 15))
var queuedOnly = filter(queuedAgents, each => (!contains(loadJsonContent('../roles.json').agentsOfBothWays, each)))
var ofQueued = settingsOfAgents(queuedAgents)
var ofQueuedOnly = settingsOfAgents(queuedOnly)
var servesQueues = contains(app.roles, 'agents')
var runsActivities = contains(app.roles, 'scheduler')
var agentsKnown = app.callsAgents ? items(union(sampleServices ? sampleAgentSettings : {}, agentSettings)) : []
var agentsHere = filter(
  agentsKnown,
  each => ((servesQueues && contains(ofQueued, each.key)) || (runsActivities && !contains(ofQueuedOnly, each.key)))
)

resource settings 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: site
  name: 'appsettings'
  properties: union(
    connectionSettings,
    app.readsHub && !empty(eventHubsHostName) ? eventHubSettings : {},
    empty(app.tables) ? {} : stateSettings,
    !empty(app.agentTables) && !empty(agentTableEndpoint) ? agentStoreSettings : {},
    app.taskHub && !empty(durableSchedulerEndpoint) ? durableSchedulerSettings : {},
    settingsOf(application),
    chosenSettings,
    toObject(agentsHere, each => (each.key), each => (each.value))
  )
}
