// The built-in roles that are granted, by name. Owner roles stay out, but for the one that the Functions host needs.

@export()
@description('Ids of built-in role definitions, the same in every tenant.')
var roles = {
  // The host keeps leases, keys and the package in blobs, and asks for this role (Functions: identity-based AzureWebJobsStorage).
  storageBlobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  storageQueueDataContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
  storageTableDataContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
  serviceBusDataSender: '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39'
  serviceBusDataReceiver: '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0'
  eventHubsDataReceiver: 'a638d3c7-ab3a-418d-83e6-5f17a39d4fde'
  monitoringMetricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb'
  durableTaskDataContributor: '0ad04412-c4d5-4796-b79c-f76d14c8d402'
  // The host makes keys in the vault, under names of its own.
  keyVaultSecretsOfficer: 'b86a8fe4-44ce-4948-aee5-eccb2c155cd7'
}

@export()
@description('Tells what a queue is for, by its name: as functions/roles.py does.')
func kindOf(queue string) string =>
  contains(['submissions', 'scheduler-requests', 'agent-replies', 'operator-alerts'], queue)
    ? queue
    : (startsWith(queue, 'agent-') && endsWith(queue, '-requests') ? 'agent-requests' : 'notices')
