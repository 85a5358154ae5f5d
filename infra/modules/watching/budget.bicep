// A monthly budget that tells by e-mail; it stops nothing.

@description('Name of the budget.')
param name string

@description('The month\'s amount, in the currency of the subscription.')
@minValue(0)
param amount int

@description('First day of the month from which it counts, such as 2026-11-01; it can\'t be changed later.')
@minLength(10)
@maxLength(10)
param startDate string

@description('Who is told: when 80 % is forecast, and when all of it is spent.')
@minLength(1)
@maxLength(20)
param emails array

resource budget 'Microsoft.Consumption/budgets@2026-06-01' = {
  name: name
  properties: {
    category: 'Cost'
    amount: amount
    timeGrain: 'Monthly'
    timePeriod: {
      startDate: startDate
    }
    notifications: {
      forecast: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 80
        thresholdType: 'Forecasted'
        contactEmails: emails
      }
      spent: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 100
        thresholdType: 'Actual'
        contactEmails: emails
      }
    }
  }
}
