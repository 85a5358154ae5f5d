"""Starts the export of telemetry, if the settings name a place for it.

Without one, OpenTelemetry's interfaces do nothing, and its SDK is not even imported. What is imported here
late costs a start more than a second, which nobody shall pay who exports nothing.
"""

from __future__ import annotations

import logging

from functions.settings import Settings
from functions.telemetry.flushing import flush_at_exit
from functions.telemetry.log_records import AllowedFields

#: The application's own loggers lie below this one; other libraries' lines may quote what they handle.
_LOGGER = "functions"


def export_telemetry(settings: Settings) -> None:
    """Export to Application Insights, to an OTLP endpoint, to both, or nowhere. Raises `SettingsError`."""
    component, to_otlp = settings.application_insights, settings.otlp_endpoint is not None
    logger = logging.getLogger(_LOGGER)
    if component is not None:
        from functions.telemetry.azure_monitor import export_to_azure_monitor  # noqa: PLC0415 - see above

        export_to_azure_monitor(component, logger, also_to_otlp=to_otlp)
    elif to_otlp:
        from functions.telemetry.otlp import export_to_otlp  # noqa: PLC0415 - see above

        export_to_otlp(logger, settings.service_name)
    else:
        return
    flush_at_exit()
    for handler in logger.handlers:
        handler.addFilter(AllowedFields())
