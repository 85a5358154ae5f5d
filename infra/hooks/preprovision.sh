#!/bin/sh
# Before azd provisions: makes the key of the sample services, unless their vaults have one or were asked to take one.
# azd gives the environment's values as variables; the templates take `True` for `true`, too.
set -eu

is_true() {
  [ "$(printf %s "$1" | tr '[:upper:]' '[:lower:]')" = true ]
}

if ! is_true "${SAMPLE_SERVICES:-true}" || [ -n "${SAMPLE_SERVICES_KEY:-}" ]; then
  exit 0
fi
# One app and an app for each role have different vaults.
layout=all
if is_true "${ROLES_SPLIT:-false}"; then
  layout=split
fi
# An environment that is new on this machine, such as a pipeline's, learns what was deployed before.
if [ "${SAMPLE_SERVICES_KEY_MADE:-}" != "$layout" ]; then
  azd env refresh --no-prompt >/dev/null 2>&1 || true
  SAMPLE_SERVICES_KEY_MADE=$(azd env get-value SAMPLE_SERVICES_KEY_MADE 2>/dev/null || true)
fi
if [ "$SAMPLE_SERVICES_KEY_MADE" != "$layout" ]; then
  azd env set SAMPLE_SERVICES_KEY "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"
fi
