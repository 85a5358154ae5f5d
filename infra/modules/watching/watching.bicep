// What watches an environment: an action group, alerts on metrics and logs, a workbook, and a budget.

@description('Region of the log alerts and of the workbook.')
param location string

@description('Tags of everything here.')
param tags object

@description('Resource id of the Log Analytics workspace that the queries read.')
param workspaceId string

@description('Resource id of the Application Insights component under which the workbook is found.')
param componentId string

@description('Resource id of the Service Bus namespace whose queues are watched.')
param namespaceId string

@description('Resource id of the Event Hubs namespace that is watched, or nothing.')
param eventHubsId string

@description('With what the names of alerts begin.')
@minLength(1)
param prefix string

@description('E-mail addresses that are told of each alert; none for nobody.')
@maxLength(20)
param alertEmails array

@description('Address that alerts are posted to, in the common alert schema, unless the application posts them; empty for none.')
@secure()
param alertWebhookUrl string

@description('Name of the workbook: a GUID.')
@minLength(36)
@maxLength(36)
param workbookName string

@description('Name of the budget.')
param budgetName string

@description('Monthly budget in the currency of the subscription, or 0 for none.')
@minValue(0)
param monthlyBudget int

@description('First day of the month in which the budget is made.')
@maxLength(10)
param budgetStart string

var queries = {
  'failed-requests': loadTextContent('../../queries/failed-requests.kql')
  'late-events': loadTextContent('../../queries/late-events.kql')
  'log-cap': loadTextContent('../../queries/log-cap.kql')
  'lost-messages': loadTextContent('../../queries/lost-messages.kql')
  'operator-alerts': loadTextContent('../../queries/operator-alerts.kql')
  'refused-orders': loadTextContent('../../queries/refused-orders.kql')
  'rejected-replies': loadTextContent('../../queries/rejected-replies.kql')
  'silent-supervisor': loadTextContent('../../queries/silent-supervisor.kql')
  sweeps: loadTextContent('../../queries/sweeps.kql')
  'task-counts': loadTextContent('../../queries/task-counts.kql')
  'task-durations': loadTextContent('../../queries/task-durations.kql')
  'waiting-messages': loadTextContent('../../queries/waiting-messages.kql')
}

module operators 'action-group.bicep' = {
  name: 'operators'
  params: {
    name: '${prefix}-operators'
    tags: tags
    emails: alertEmails
    webhookUrl: alertWebhookUrl
  }
}

module mail 'action-group.bicep' = {
  name: 'mail'
  params: {
    name: '${prefix}-mail'
    tags: tags
    emails: alertEmails
    webhookUrl: ''
  }
}

module metricAlerts 'metric-alerts.bicep' = {
  name: 'metric-alerts'
  params: {
    prefix: prefix
    tags: tags
    namespaceId: namespaceId
    actionGroupId: operators.outputs.id
  }
}

module hubAlerts 'hub-alerts.bicep' = if (!empty(eventHubsId)) {
  name: 'hub-alerts'
  params: {
    prefix: prefix
    tags: tags
    namespaceId: eventHubsId
    actionGroupId: operators.outputs.id
  }
}

module logAlerts 'log-alerts.bicep' = {
  name: 'log-alerts'
  params: {
    prefix: prefix
    location: location
    tags: tags
    workspaceId: workspaceId
    queries: queries
    actionGroupId: operators.outputs.id
    mailGroupId: mail.outputs.id
    watchHub: !empty(eventHubsId)
  }
}

module workbook 'workbook.bicep' = {
  name: 'workbook'
  params: {
    name: workbookName
    displayName: '${prefix} tasks'
    location: location
    tags: tags
    workspaceId: workspaceId
    componentId: componentId
    namespaceId: namespaceId
    queries: queries
  }
}

module budget 'budget.bicep' = if (monthlyBudget > 0) {
  name: 'budget'
  params: {
    name: budgetName
    amount: monthlyBudget
    startDate: budgetStart
    emails: alertEmails
  }
}
