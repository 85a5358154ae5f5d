// The workbook: infra/workbook/workbook.json, in which `<name>` stands for a query or a resource id.

@description('Name of the workbook: a GUID.')
param name string

@description('Name under which the portal shows it.')
param displayName string

@description('Region of the workbook.')
param location string

@description('Tags of the workbook.')
param tags object

@description('Resource id of the Log Analytics workspace that the queries read.')
param workspaceId string

@description('Resource id of the Application Insights component under which the workbook is found.')
param componentId string

@description('Resource id of the Service Bus namespace whose queues are charted.')
param namespaceId string

@description('The queries by their names.')
param queries object

@description('Writes a text as it stands between the quotes of a JSON string.')
func escaped(text string) string => substring(string([text]), 2, max(length(string([text])) - 4, 0))

var fillings = union(queries, {
  workspaceId: workspaceId
  componentId: componentId
  namespaceId: namespaceId
})

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' = {
  name: name
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    displayName: displayName
    category: 'workbook'
    version: '1.0'
    sourceId: componentId
    serializedData: reduce(
      items(fillings),
      loadTextContent('../../workbook/workbook.json'),
      (text, filling) => replace(string(text), '<${filling.key}>', escaped(filling.value))
    )
  }
}
