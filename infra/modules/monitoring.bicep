// Where telemetry goes: a Log Analytics workspace, and an Application Insights component that takes it by identity only.

@description('Name of the Log Analytics workspace.')
param workspaceName string

@description('Name of the Application Insights component.')
param componentName string

@description('Region of both.')
param location string

@description('Tags of both.')
param tags object

@description('Days for which telemetry is kept; the first 31 are free.')
@minValue(30)
@maxValue(730)
param retentionInDays int

@description('Days for which the record of operators\' actions is kept.')
@minValue(30)
@maxValue(730)
param auditRetentionInDays int

@description('GB that the workspace takes in a day, or -1 for no limit; what comes later that day is lost, and an alert tells.')
@minValue(-1)
param dailyGigabytes int

resource workspace 'Microsoft.OperationalInsights/workspaces@2026-03-01' = {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: retentionInDays
    workspaceCapping: {
      dailyQuotaGb: dailyGigabytes
    }
    features: {
      disableLocalAuth: true
    }
  }
}

// Nothing but the application's record of operators' actions (functions/telemetry/instruments.py) goes into this table,
// to which lines are only added.
resource operatorActions 'Microsoft.OperationalInsights/workspaces/tables@2026-03-01' = {
  parent: workspace
  name: 'AppEvents'
  properties: {
    plan: 'Analytics'
    retentionInDays: auditRetentionInDays
    totalRetentionInDays: auditRetentionInDays
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' = {
  name: componentName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    DisableLocalAuth: true
  }
}

@description('Resource id of the workspace.')
output workspaceId string = workspace.id

@description('Resource id of the component.')
output componentId string = component.id
