"""Logs: formatters of lines, and a filter that has records say of which job they are.

For `logging.config.dictConfig`, or a handler of your own:

    {"filters": {"job": {"()": "mutirao.telemetry.logs.JobFields"}},
     "formatters": {"json": {"()": "mutirao.telemetry.logs.JsonFormatter"}}}
"""

from mutirao.telemetry.logs.formats import JsonFormatter, LogfmtFormatter, TextFormatter
from mutirao.telemetry.logs.handling import JobFields, LineHandler, job_fields

__all__ = [
    "JobFields",
    "JsonFormatter",
    "LineHandler",
    "LogfmtFormatter",
    "TextFormatter",
    "job_fields",
]
