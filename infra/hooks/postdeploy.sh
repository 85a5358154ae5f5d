#!/bin/sh
# After azd has deployed: with VERIFY=true, proves that what was deployed works. VERIFY_KEY or VERIFY_TOKEN are kept
# where they are set; without them, the app's default key is asked for, or with sign-in a token. Where each role is an
# app of its own, operators use another app, which has other keys.
set -eu

case "${VERIFY:-}" in
  [Tt][Rr][Uu][Ee]) ;;
  *) exit 0 ;;
esac
if [ -z "${VERIFY_KEY:-}" ]; then
  VERIFY_KEY=$(az functionapp keys list --name "$AZURE_FUNCTION_NAME" --resource-group "$AZURE_RESOURCE_GROUP" \
    --query functionKeys.default --output tsv)
  export VERIFY_KEY
fi
if [ -z "${VERIFY_OPERATOR_KEY:-}" ] && [ "$AZURE_OPERATORS_FUNCTION_NAME" != "$AZURE_FUNCTION_NAME" ]; then
  VERIFY_OPERATOR_KEY=$(az functionapp keys list --name "$AZURE_OPERATORS_FUNCTION_NAME" \
    --resource-group "$AZURE_RESOURCE_GROUP" --query functionKeys.default --output tsv)
  export VERIFY_OPERATOR_KEY
fi
if [ -n "${SIGN_IN_CLIENT_ID:-}" ] && [ -z "${VERIFY_TOKEN:-}" ]; then
  VERIFY_TOKEN=$(az account get-access-token --resource "$SIGN_IN_CLIENT_ID" --query accessToken --output tsv)
  export VERIFY_TOKEN
fi
exec .venv/bin/python -m local verify --url "$SERVICE_APP_URI" --operators-url "$OPERATORS_APP_URI"
