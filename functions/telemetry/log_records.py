"""What a log record may carry on its way out: its text, the facts of the spans around it, and no more."""

from __future__ import annotations

import copy
import logging
import traceback

from opentelemetry.context import get_current

from functions.telemetry.fields import Facts, Field, attributes
from functions.telemetry.spans import facts_of

#: What every record has. What others have added to it (`extra=`) is not on the allow-list.
_OWN = frozenset(vars(logging.makeLogRecord({})))


class AllowedFields(logging.Filter):
    """Gives an exporting handler a record of its own, with task, step and epoch where there are any.

    An exception leaves by its class and its place in the code: its text may quote a payload. Trace and
    span ids are the exporting handler's to add.
    """

    def filter(self, record: logging.LogRecord) -> logging.LogRecord:
        """Make the record that is exported; the one that other handlers get is left alone."""
        exported = copy.copy(record)
        exported.__dict__ = {name: value for name, value in vars(record).items() if name in _OWN}
        exported.exc_info = exported.exc_text = None
        vars(exported).update(attributes({**facts_of(get_current()), **_failure(record)}))
        return exported


def _failure(record: logging.LogRecord) -> Facts:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    kind, _, frames = record.exc_info
    return {Field.ERROR: kind.__name__, Field.FRAMES: "".join(traceback.format_tb(frames))}
