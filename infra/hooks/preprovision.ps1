# Before azd provisions: makes the key of the sample services, unless their vault has one or was asked to take one.
# azd gives the environment's values as variables.
$samples = if ($env:SAMPLE_SERVICES) { $env:SAMPLE_SERVICES } else { 'true' }
if ($samples -ne 'true' -or $env:SAMPLE_SERVICES_KEY) { exit 0 }
# An environment that is new on this machine, such as a pipeline's, learns what was deployed before.
$made = $env:SAMPLE_SERVICES_KEY_MADE
if (-not $made) {
    azd env refresh --no-prompt *> $null
    $made = azd env get-value SAMPLE_SERVICES_KEY_MADE 2> $null
}
if ($made -ne 'true') {
    $bytes = [Security.Cryptography.RandomNumberGenerator]::GetBytes(32)
    azd env set SAMPLE_SERVICES_KEY ([Convert]::ToHexString($bytes).ToLower())
    exit $LASTEXITCODE
}
exit 0
