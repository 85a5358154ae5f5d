// Who gets alerts: an action group that mails, and may post.

@description('Name of the action group.')
param name string

@description('Tags of the action group.')
param tags object

@description('E-mail addresses; none for nobody.')
param emails array

@description('Address that alerts are posted to; empty for none.')
@secure()
param webhookUrl string

resource operators 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: name
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    // At most 12 characters: text messages and e-mails begin with it.
    groupShortName: 'operators'
    emailReceivers: [
      for (address, number) in emails: {
        name: 'email-${number}'
        emailAddress: address
        useCommonAlertSchema: true
      }
    ]
    webhookReceivers: empty(webhookUrl)
      ? []
      : [
          {
            name: 'webhook'
            serviceUri: webhookUrl
            useCommonAlertSchema: true
          }
        ]
  }
}

@description('Resource id of the action group.')
output id string = operators.id
