#!/bin/sh
# Before azd provisions: makes the key of the sample services, unless their vault has one or was asked to take one.
# azd gives the environment's values as variables.
set -eu

if [ "${SAMPLE_SERVICES:-true}" != true ] || [ -n "${SAMPLE_SERVICES_KEY:-}" ]; then
  exit 0
fi
# An environment that is new on this machine, such as a pipeline's, learns what was deployed before.
if [ -z "${SAMPLE_SERVICES_KEY_MADE:-}" ]; then
  azd env refresh --no-prompt >/dev/null 2>&1 || true
  SAMPLE_SERVICES_KEY_MADE=$(azd env get-value SAMPLE_SERVICES_KEY_MADE 2>/dev/null || true)
fi
if [ "$SAMPLE_SERVICES_KEY_MADE" != true ]; then
  azd env set SAMPLE_SERVICES_KEY "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"
fi
