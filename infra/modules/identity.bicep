// The identity of the function app. One app has one identity, so all of the app's functions share its roles.

@description('Name of the identity.')
param name string

@description('Region of the identity.')
param location string

@description('Tags of the identity.')
param tags object

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}

@description('Resource id of the identity.')
output id string = identity.id

@description('Id by which the application asks for tokens.')
output clientId string = identity.properties.clientId

@description('Id to which roles are assigned.')
output principalId string = identity.properties.principalId
