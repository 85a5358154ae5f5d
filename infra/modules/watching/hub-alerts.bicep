// The alerts on the metrics of Event Hubs.

@description('What the names of the alerts begin with.')
param prefix string

@description('Tags of the alerts.')
param tags object

@description('Resource id of the Event Hubs namespace.')
param namespaceId string

@description('Resource id of the action group.')
param actionGroupId string

var readHub = loadJsonContent('../../hubs.json').hubs[0].name
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

// Event Hubs publishes no metric of a consumer's lag. Each condition may name one hub: the one that the app reads.
resource stalled 'Microsoft.Insights/metricAlerts@2026-01-01' = {
  name: '${prefix}-hub-stalled'
  location: 'global'
  tags: tags
  properties: {
    description: 'For 15 minutes events came into the event hub, and none was read.'
    severity: 1
    enabled: true
    scopes: [
      namespaceId
    ]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    autoMitigate: true
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'incoming'
          metricNamespace: 'Microsoft.EventHub/namespaces'
          metricName: 'IncomingMessages'
          timeAggregation: 'Total'
          operator: 'GreaterThan'
          threshold: 0
          dimensions: [
            {
              name: 'EntityName'
              operator: 'Include'
              values: [readHub]
            }
          ]
        }
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'outgoing'
          metricNamespace: 'Microsoft.EventHub/namespaces'
          metricName: 'OutgoingMessages'
          timeAggregation: 'Total'
          operator: 'LessThanOrEqual'
          threshold: 0
          dimensions: [
            {
              name: 'EntityName'
              operator: 'Include'
              values: [readHub]
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
