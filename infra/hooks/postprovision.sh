#!/bin/sh
# After azd has provisioned: the vault has the key of the sample services now, so this machine forgets it.
set -eu

if [ -n "${SAMPLE_SERVICES_KEY:-}" ]; then
  azd env set SAMPLE_SERVICES_KEY ""
fi
