# Before azd provisions: makes the key of the sample services, unless their vaults have one or were asked to take one.
# azd gives the environment's values as variables; the templates take `True` for `true`, and so do -eq and -ne here.
$samples = if ($env:SAMPLE_SERVICES) { $env:SAMPLE_SERVICES } else { 'true' }
if ($samples -ne 'true' -or $env:SAMPLE_SERVICES_KEY) { exit 0 }
# One app and an app for each role have different vaults.
$layout = if ($env:ROLES_SPLIT -eq 'true') { 'split' } else { 'all' }
# An environment that is new on this machine, such as a pipeline's, learns what was deployed before.
$made = $env:SAMPLE_SERVICES_KEY_MADE
if ($made -ne $layout) {
    azd env refresh --no-prompt *> $null
    $made = azd env get-value SAMPLE_SERVICES_KEY_MADE 2> $null
}
if ($made -ne $layout) {
    $bytes = [Security.Cryptography.RandomNumberGenerator]::GetBytes(32)
    azd env set SAMPLE_SERVICES_KEY ([Convert]::ToHexString($bytes).ToLower())
    exit $LASTEXITCODE
}
exit 0
