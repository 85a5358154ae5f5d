// The names of all resources, made in one place. Storage and Key Vault allow 24 characters, which the token spares.

@export()
@description('Names every resource of an environment; `token` is 13 characters that no other deployment has.')
func namesOf(environmentName string, token string) object => {
  resourceGroup: 'rg-${environmentName}'
  token: token
  logs: 'log-${token}'
  insights: 'appi-${token}'
  stateStorage: 'ststate${token}'
  agentStorage: 'stagent${token}'
  serviceBus: 'sb-${token}'
  eventHubs: 'evhns-${token}'
  durableScheduler: 'dts-${token}'
  network: 'vnet-${token}'
  budget: 'budget-${token}'
  // As the only app is called, also where each role is an app: split, it keeps its alerts instead of getting others.
  alerts: 'func-${token}'
  workbook: guid(token, 'workbook')
}

@export()
@description('Names what one app shares with no other; `mark` is nothing, or the two letters of its role.')
func appNamesOf(token string, mark string) object => {
  suffix: empty(mark) ? '' : '-${mark}'
  identity: empty(mark) ? 'id-${token}' : 'id-${token}-${mark}'
  hostStorage: 'sthost${mark}${token}'
  plan: empty(mark) ? 'plan-${token}' : 'plan-${token}-${mark}'
  app: empty(mark) ? 'func-${token}' : 'func-${token}-${mark}'
  vault: empty(mark) ? 'kv-${token}' : 'kv-${token}-${mark}'
}
