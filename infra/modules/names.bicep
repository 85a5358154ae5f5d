// The names of all resources, made in one place. Storage and Key Vault allow 24 characters, which the token spares.

@export()
@description('Names every resource of an environment; `token` is 13 characters that no other deployment has.')
func namesOf(environmentName string, token string, stateAccounts int) object => {
  resourceGroup: 'rg-${environmentName}'
  identity: 'id-${token}'
  logs: 'log-${token}'
  insights: 'appi-${token}'
  hostStorage: 'sthost${token}'
  stateStorage: map(range(0, stateAccounts), each => (each == 0 ? 'ststate${token}' : 'ststate${token}${each}'))
  serviceBus: 'sb-${token}'
  eventHubs: 'evhns-${token}'
  plan: 'plan-${token}'
  app: 'func-${token}'
  durableScheduler: 'dts-${token}'
  vault: 'kv-${token}'
  network: 'vnet-${token}'
  budget: 'budget-${token}'
  workbook: guid(token, 'workbook')
}
