// The values of `azd env set`, where there are any. What is not here can be set here, such as
// `param application = { supervisorThreshold: 5 }` or `param agentSettings = { PAYMENT_URL: 'https://pay.example.com/payments' }`.

using 'main.bicep'

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME')
param location = readEnvironmentVariable('AZURE_LOCATION')
param roles = bool(readEnvironmentVariable('ROLES_SPLIT', 'false')) ? 'split' : 'all'
param redundancy = readEnvironmentVariable('STATE_REDUNDANCY', 'ZRS')
param zoneRedundant = bool(readEnvironmentVariable('ZONE_REDUNDANT', 'false'))
param alwaysReadyInstances = int(readEnvironmentVariable('ALWAYS_READY', '1'))
param alwaysReadyHttpInstances = int(readEnvironmentVariable('ALWAYS_READY_HTTP', '0'))
param maximumInstances = int(readEnvironmentVariable('MAXIMUM_INSTANCES', '40'))
param durableBackend = readEnvironmentVariable('DURABLE_BACKEND', 'storage')
param eventHub = bool(readEnvironmentVariable('EVENT_HUB', 'false'))
param privateNetwork = bool(readEnvironmentVariable('PRIVATE_NETWORK', 'false'))
param agentsSubnetId = readEnvironmentVariable('AGENTS_SUBNET_ID', '')
param sampleServices = bool(readEnvironmentVariable('SAMPLE_SERVICES', 'true'))
param signInClientId = readEnvironmentVariable('SIGN_IN_CLIENT_ID', '')
param alertEmails = empty(readEnvironmentVariable('ALERT_EMAILS', '')) ? [] : split(readEnvironmentVariable('ALERT_EMAILS', ''), ',')
param sampleServicesKey = readEnvironmentVariable('SAMPLE_SERVICES_KEY', '')
param purgeProtection = bool(readEnvironmentVariable('PURGE_PROTECTION', 'false'))
param locked = bool(readEnvironmentVariable('RESOURCE_LOCKS', 'false'))
param alertWebhookUrl = readEnvironmentVariable('ALERT_WEBHOOK_URL', '')
param logs = {
  auditRetentionDays: int(readEnvironmentVariable('AUDIT_DAYS', '365'))
  dailyGigabytes: int(readEnvironmentVariable('DAILY_LOG_GB', '10'))
  stateAccess: bool(readEnvironmentVariable('STATE_ACCESS_LOGS', 'false'))
}
param monthlyBudget = int(readEnvironmentVariable('MONTHLY_BUDGET', '0'))
param budgetStart = readEnvironmentVariable('BUDGET_START', '')
