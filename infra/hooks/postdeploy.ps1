# After azd has deployed: with VERIFY=true, proves that what was deployed works. VERIFY_KEY or VERIFY_TOKEN are kept
# where they are set; without them, the app's default key is asked for, or with sign-in a token. Where each role is an
# app of its own, operators use another app, which has other keys.
if ($env:VERIFY -ne 'true') { exit 0 }
if (-not $env:VERIFY_KEY) {
    $env:VERIFY_KEY = az functionapp keys list --name $env:AZURE_FUNCTION_NAME --resource-group $env:AZURE_RESOURCE_GROUP --query functionKeys.default --output tsv
}
if (-not $env:VERIFY_OPERATOR_KEY -and $env:AZURE_OPERATORS_FUNCTION_NAME -ne $env:AZURE_FUNCTION_NAME) {
    $env:VERIFY_OPERATOR_KEY = az functionapp keys list --name $env:AZURE_OPERATORS_FUNCTION_NAME --resource-group $env:AZURE_RESOURCE_GROUP --query functionKeys.default --output tsv
}
if ($env:SIGN_IN_CLIENT_ID -and -not $env:VERIFY_TOKEN) {
    $env:VERIFY_TOKEN = az account get-access-token --resource $env:SIGN_IN_CLIENT_ID --query accessToken --output tsv
}
.venv/Scripts/python -m local verify --url $env:SERVICE_APP_URI --operators-url $env:OPERATORS_APP_URI
exit $LASTEXITCODE
