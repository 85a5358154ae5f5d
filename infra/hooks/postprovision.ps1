# After azd has provisioned: the vault has the key of the sample services now, so this machine forgets it.
if ($env:SAMPLE_SERVICES_KEY) { azd env set SAMPLE_SERVICES_KEY '' }
