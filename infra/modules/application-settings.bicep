// The application's own settings that can be chosen, and the defaults of those that are not: as in functions/settings.py.

@export()
@description('The application\'s own settings; what is left out has the default of functions/settings.py. Times are in seconds.')
type ApplicationSettings = {
  @description('Partitions of the state store. It can\'t be changed once the table exists.')
  @minValue(1)
  @maxValue(256)
  stateShards: int?

  @description('The time within which a run must pick up a task.')
  @minValue(1)
  @maxValue(86400)
  pickUpSeconds: int?

  @description('Queues that callers may name in reply_to, with commas between.')
  @maxLength(1000)
  replyQueues: string?

  @description('Steps of one task that one activity runs side by side.')
  @minValue(1)
  @maxValue(100)
  stepsAtOnce: int?

  @description('The time of one run, at least 30 less than functionTimeout in host.json.')
  @minValue(30)
  @maxValue(86400)
  runSeconds: int?

  @description('Hours for which a step waits behind a closed gate before it counts as overdue.')
  @minValue(1)
  @maxValue(168)
  deferHours: int?

  @description('Complete-by limits to change, such as orders.payment=30,other.step=5.')
  @maxLength(1000)
  stepSeconds: string?

  @description('Waits between the attempts of a call, such as first=0.2,factor=2,longest=10.')
  @maxLength(100)
  retry: string?

  @description('Agents behind queues that other processes serve, with commas between.')
  @maxLength(1000)
  agentsElsewhere: string?

  @description('Failures in a row after which the circuit of a gate opens.')
  @minValue(1)
  breakerFailures: int?

  @description('The time for which a circuit stays open at first.')
  @minValue(1)
  @maxValue(86400)
  breakerOpenSeconds: int?

  @description('When the Supervisor looks for overdue tasks (NCRONTAB).')
  @minLength(9)
  @maxLength(100)
  supervisorSchedule: string?

  @description('Recoveries without an extra wait.')
  @minValue(0)
  @maxValue(100)
  supervisorThreshold: int?

  @description('Waits before each further recovery, with commas between.')
  @minLength(1)
  @maxLength(200)
  extendedWaits: string?

  @description('The time by which clocks may differ.')
  @minValue(0)
  @maxValue(10)
  skewSeconds: int?

  @description('Hours for which the id of an order stays reserved that is not recorded.')
  @minValue(36)
  @maxValue(8760)
  reservationHours: int?

  @description('Days for which finished tasks are kept.')
  @minValue(1)
  @maxValue(36500)
  retentionDays: int?

  @description('Orders and requests that a caller may send to one instance a minute.')
  @minValue(1)
  ratePerMinute: int?

  @description('Age of the oldest submission from which new orders get 429.')
  @minValue(1)
  @maxValue(604800)
  intakeMostSeconds: int?

  @description('Alerts that are posted singly in a minute; one summary counts the others.')
  @minValue(0)
  alertsPerMinute: int?

  @description('Format of the alert webhook; without it, the address decides.')
  alertFormat: ('generic' | 'teams')?
}

@export()
@description('Writes the settings as functions/settings.py reads them.')
func settingsOf(application ApplicationSettings) object => {
  STATE_SHARDS: string(application.?stateShards ?? 16)
  PICK_UP_SECONDS: string(application.?pickUpSeconds ?? 60)
  STEPS_AT_ONCE: string(application.?stepsAtOnce ?? 16)
  RUN_SECONDS: string(application.?runSeconds ?? 240)
  DEFER_HOURS: string(application.?deferHours ?? 6)
  REPLY_QUEUES: application.?replyQueues ?? ''
  STEP_SECONDS: application.?stepSeconds ?? ''
  RETRY: application.?retry ?? ''
  AGENTS_ELSEWHERE: application.?agentsElsewhere ?? ''
  BREAKER_FAILURES: string(application.?breakerFailures ?? 5)
  BREAKER_OPEN_SECONDS: string(application.?breakerOpenSeconds ?? 15)
  SUPERVISOR_SCHEDULE: application.?supervisorSchedule ?? '*/30 * * * * *'
  SUPERVISOR_THRESHOLD: string(application.?supervisorThreshold ?? 3)
  EXTENDED_WAITS: application.?extendedWaits ?? '60,300,900'
  SKEW_SECONDS: string(application.?skewSeconds ?? 5)
  RESERVATION_HOURS: string(application.?reservationHours ?? 48)
  RETENTION_DAYS: string(application.?retentionDays ?? 30)
  RATE_PER_MINUTE: string(application.?ratePerMinute ?? 6000)
  INTAKE_MOST_SECONDS: string(application.?intakeMostSeconds ?? 900)
  ALERTS_PER_MINUTE: string(application.?alertsPerMinute ?? 20)
  ALERT_FORMAT: application.?alertFormat ?? ''
}
