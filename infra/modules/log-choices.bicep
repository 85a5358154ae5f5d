// What is logged, and for how long it is kept.

@export()
@description('What is logged, and for how long; what is left out has its default.')
type LogChoices = {
  @description('Days for which telemetry is kept.')
  @minValue(30)
  @maxValue(730)
  retentionDays: int?

  @description('Days for which the record of operators\' actions is kept.')
  @minValue(30)
  @maxValue(730)
  auditRetentionDays: int?

  @description('GB that are taken in a day, or -1 for no limit; what comes later that day is lost, and an alert tells.')
  @minValue(-1)
  dailyGigabytes: int?

  @description('Whether each access to the state store is logged: several lines for each order.')
  stateAccess: bool?
}
