// Alerts on what Service Bus itself measures, for each queue by itself.

@description('What the names of the alerts begin with.')
param prefix string

@description('Tags of the alerts.')
param tags object

@description('Resource id of the Service Bus namespace.')
param namespaceId string

@description('Resource id of the action group.')
param actionGroupId string

var alerts = loadJsonContent('alerts.json').metric

var queueNames = [for queue in loadJsonContent('../../queues.json').queues: queue.name]

resource metricAlerts 'Microsoft.Insights/metricAlerts@2026-01-01' = [
  for alert in alerts: {
    name: '${prefix}-${alert.name}'
    location: 'global'
    tags: tags
    properties: {
      description: alert.description
      severity: alert.severity
      enabled: true
      scopes: [
        namespaceId
      ]
      evaluationFrequency: 'PT5M'
      windowSize: alert.window
      autoMitigate: true
      criteria: {
        'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
        allOf: [
          {
            criterionType: 'StaticThresholdCriterion'
            name: alert.name
            metricNamespace: 'Microsoft.ServiceBus/namespaces'
            metricName: alert.metric
            timeAggregation: alert.aggregation
            operator: 'GreaterThan'
            threshold: alert.threshold
            dimensions: [
              {
                name: 'EntityName'
                operator: 'Include'
                values: queueNames
              }
            ]
          }
        ]
      }
      actions: [
        {
          actionGroupId: actionGroupId
        }
      ]
    }
  }
]
