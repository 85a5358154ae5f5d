// The application's own settings that can be chosen, and the defaults of those that are not: as in functions/settings.py.

@export()
@description('The application\'s own settings; what is left out has the default of functions/settings.py. Times are in seconds.')
type ApplicationSettings = {
  @description('Partitions of the state store. It can\'t be changed once the table exists.')
  @minValue(1)
  @maxValue(256)
  stateShards: int?

  @description('The time within which a Scheduler must take up a task.')
  @minValue(1)
  @maxValue(86400)
  pickUpSeconds: int?

  @description('The time that a request may wait for its Agent behind a queue, beside the step\'s own.')
  @minValue(1)
  @maxValue(86400)
  agentsPickUpSeconds: int?

  @description('Queues that callers may name in reply_to, with commas between.')
  @maxLength(1000)
  replyQueues: string?

  @description('Steps of one task that one activity runs side by side.')
  @minValue(1)
  @maxValue(100)
  stepsAtOnce: int?

  @description('The time that the host lets a function run, as host.json says.')
  @minValue(30)
  @maxValue(86400)
  functionTimeoutSeconds: int?

  @description('Complete-by limits to change, such as orders.payment=30,other.step=5.')
  @maxLength(1000)
  stepSeconds: string?

  @description('How a call that failed is made again, such as attempts=100,first=0.2,factor=2,most=10.')
  @maxLength(100)
  retry: string?

  @description('Agents behind queues that other processes serve, with commas between.')
  @maxLength(1000)
  agentsElsewhere: string?

  @description('Failed calls in a row after which the circuit of a remote service opens.')
  @minValue(1)
  breakerFailures: int?

  @description('The time for which the circuit of a failing remote service stays open.')
  @minValue(1)
  @maxValue(86400)
  breakerOpenSeconds: int?

  @description('When the Supervisor looks for overdue tasks (NCRONTAB).')
  @minLength(9)
  @maxLength(100)
  supervisorSchedule: string?

  @description('Recoveries that a task gets at once.')
  @minValue(0)
  @maxValue(100)
  supervisorThreshold: int?

  @description('Waits before each further recovery, with commas between.')
  @minLength(1)
  @maxLength(200)
  extendedWaits: string?

  @description('Tasks that must be late for one reason for it to be a crowd.')
  @minValue(2)
  crowdTasks: int?

  @description('Tasks of a crowd that go on a minute.')
  @minValue(1)
  @maxValue(1000000)
  crowdPerMinute: int?

  @description('Hours for which a task\'s time can be extended in crowds, all in all.')
  @minValue(1)
  @maxValue(168)
  crowdHours: int?

  @description('The time by which clocks may differ.')
  @minValue(0)
  @maxValue(300)
  skewSeconds: int?

  @description('Days for which finished tasks are kept.')
  @minValue(1)
  @maxValue(36500)
  retentionDays: int?

  @description('Where the API puts the orders that it accepts; hub makes the event hub.')
  submitTo: ('queue' | 'hub')?

  @description('Orders and requests that a caller may send to one instance a minute.')
  @minValue(1)
  ratePerMinute: int?

  @description('The time that orders may wait to be recorded before new ones are refused.')
  @minValue(1)
  @maxValue(604800)
  intakeMostSeconds: int?

  @description('Messages and late tasks that may wait to be taken up before new orders are refused.')
  @minValue(1)
  intakeMostWaiting: int?

  @description('Alerts that are posted singly in a minute; one summary counts the others.')
  @minValue(0)
  alertsPerMinute: int?

  @description('Shape of what the alert webhook gets; without it the address tells.')
  alertFormat: ('generic' | 'teams')?
}

@export()
@description('Writes the settings as functions/settings.py reads them.')
func settingsOf(application ApplicationSettings) object => {
  STATE_SHARDS: string(application.?stateShards ?? 16)
  PICK_UP_SECONDS: string(application.?pickUpSeconds ?? 60)
  AGENTS_PICK_UP_SECONDS: string(application.?agentsPickUpSeconds ?? 300)
  STEPS_AT_ONCE: string(application.?stepsAtOnce ?? 16)
  FUNCTION_TIMEOUT_SECONDS: string(application.?functionTimeoutSeconds ?? 300)
  REPLY_QUEUES: application.?replyQueues ?? ''
  STEP_SECONDS: application.?stepSeconds ?? ''
  RETRY: application.?retry ?? ''
  AGENTS_ELSEWHERE: application.?agentsElsewhere ?? ''
  BREAKER_FAILURES: string(application.?breakerFailures ?? 5)
  BREAKER_OPEN_SECONDS: string(application.?breakerOpenSeconds ?? 15)
  SUPERVISOR_SCHEDULE: application.?supervisorSchedule ?? '*/30 * * * * *'
  SUPERVISOR_THRESHOLD: string(application.?supervisorThreshold ?? 3)
  EXTENDED_WAITS: application.?extendedWaits ?? '60,300,900'
  CROWD_TASKS: string(application.?crowdTasks ?? 20)
  CROWD_PER_MINUTE: string(application.?crowdPerMinute ?? 600)
  CROWD_HOURS: string(application.?crowdHours ?? 24)
  SKEW_SECONDS: string(application.?skewSeconds ?? 5)
  RETENTION_DAYS: string(application.?retentionDays ?? 30)
  SUBMIT_TO: application.?submitTo ?? 'queue'
  RATE_PER_MINUTE: string(application.?ratePerMinute ?? 6000)
  INTAKE_MOST_SECONDS: string(application.?intakeMostSeconds ?? 900)
  INTAKE_MOST_WAITING: string(application.?intakeMostWaiting ?? 100000)
  ALERTS_PER_MINUTE: string(application.?alertsPerMinute ?? 20)
  ALERT_FORMAT: application.?alertFormat ?? ''
}
