// Sign-in by Microsoft Entra ID (Easy Auth): the platform refuses a request without a valid token before the app sees it.
// The app registration is made beforehand, as Bicep has no built-in type for it: with the app roles of
// infra/app-roles.json, the address api://{client id}, tokens of version 2, and for browsers the redirect address
// https://{host}/.auth/login/aad/callback with ID tokens.

@description('Name of the function app.')
param appName string

@description('Client id of the app registration.')
param clientId string

@description('Whether the app serves the sample services, which its own Agents call without a token.')
param sampleServices bool

resource app 'Microsoft.Web/sites@2025-03-01' existing = {
  name: appName
}

resource signIn 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: app
  name: 'authsettingsV2'
  properties: {
    platform: {
      enabled: true
    }
    globalValidation: {
      requireAuthentication: true
      unauthenticatedClientAction: 'Return401'
      excludedPaths: concat(['/api/health'], sampleServices ? ['/api/services/*'] : [])
    }
    httpSettings: {
      requireHttps: true
    }
    identityProviders: {
      azureActiveDirectory: {
        enabled: true
        registration: {
          clientId: clientId
          openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
        }
        validation: {
          allowedAudiences: [
            clientId
            'api://${clientId}'
          ]
        }
      }
    }
    login: {
      tokenStore: {
        enabled: false
      }
    }
  }
}
