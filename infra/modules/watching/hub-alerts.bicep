// The alert on what Event Hubs itself measures.

@description('What the name of the alert begins with.')
param prefix string

@description('Tags of the alert.')
param tags object

@description('Resource id of the Event Hubs namespace.')
param namespaceId string

@description('Resource id of the action group.')
param actionGroupId string

var hubNames = [for hub in loadJsonContent('../../hubs.json').hubs: hub.name]

resource throttled 'Microsoft.Insights/metricAlerts@2026-01-01' = {
  name: '${prefix}-hub-throttled'
  location: 'global'
  tags: tags
  properties: {
    description: 'Event Hubs refuses what is sent or read: more throughput units are needed.'
    severity: 2
    enabled: true
    scopes: [
      namespaceId
    ]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    autoMitigate: true
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'hub-throttled'
          metricNamespace: 'Microsoft.EventHub/namespaces'
          metricName: 'ThrottledRequests'
          timeAggregation: 'Total'
          operator: 'GreaterThan'
          threshold: 0
          dimensions: [
            {
              name: 'EntityName'
              operator: 'Include'
              values: hubNames
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
