// Alerts on what the application logs. Each tells once, and ends by itself when its rows stay away.

@description('What the names of the alerts begin with.')
param prefix string

@description('Region of the alerts: the workspace\'s.')
param location string

@description('Tags of the alerts.')
param tags object

@description('Resource id of the Log Analytics workspace.')
param workspaceId string

@description('The queries by the names that alerts.json calls them.')
param queries object

@description('Resource id of the action group that mails and posts.')
param actionGroupId string

@description('Resource id of the action group that only mails: for alerts that the application posts itself.')
param mailGroupId string

@description('Whether there is an event hub to watch.')
param watchHub bool

var alerts = concat(loadJsonContent('alerts.json').log, watchHub ? loadJsonContent('alerts.json').hub : [])

resource logAlerts 'Microsoft.Insights/scheduledQueryRules@2026-03-01' = [
  for alert in alerts: {
    name: '${prefix}-${alert.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: '${prefix}-${alert.name}'
      description: alert.description
      severity: alert.severity
      enabled: true
      scopes: [
        workspaceId
      ]
      evaluationFrequency: 'PT5M'
      windowSize: alert.window
      overrideQueryTimeRange: empty(alert.range) ? null : (alert.range)
      autoMitigate: true
      // The workspace's tables are there only when the application has first spoken.
      skipQueryValidation: true
      criteria: {
        allOf: [
          {
            query: queries[alert.query]
            timeAggregation: alert.aggregation
            metricMeasureColumn: empty(alert.column) ? null : (alert.column)
            operator: alert.operator
            threshold: alert.threshold
            dimensions: alert.dimensions
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      actions: {
        actionGroups: [
          alert.posted ? mailGroupId : actionGroupId
        ]
      }
    }
  }
]
