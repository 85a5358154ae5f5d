// Which regions have what: Azure's answer differs by region, and a template can't ask.

@export()
@description('Regions with availability zones. Elsewhere data is kept in one place instead of three zones.')
var regionsWithZones = [
  'australiaeast'
  'brazilsouth'
  'canadacentral'
  'centralindia'
  'centralus'
  'eastasia'
  'eastus'
  'eastus2'
  'francecentral'
  'germanywestcentral'
  'italynorth'
  'japaneast'
  'koreacentral'
  'northeurope'
  'norwayeast'
  'southafricanorth'
  'southcentralus'
  'southeastasia'
  'spaincentral'
  'swedencentral'
  'uaenorth'
  'uksouth'
  'westeurope'
  'westus2'
  'westus3'
]
