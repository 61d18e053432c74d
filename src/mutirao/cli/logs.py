"""Standard logging on standard error, for people or for machines.

An application that sets up logging itself keeps its setup: nothing is added to it.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

from mutirao.log import log
from mutirao.telemetry.logs.formats import JsonFormatter, LogfmtFormatter, TextFormatter
from mutirao.telemetry.logs.handling import LineHandler

Format = Literal["text", "json", "logfmt"]
FORMATTERS: dict[Format, type[logging.Formatter]] = {
    "text": TextFormatter,
    "json": JsonFormatter,
    "logfmt": LogfmtFormatter,
}
_ECHOES = (
    "error when creating transport",
    "Unexpected connection close from remote",
    "Cancelling cause reader exited abnormally",
)


def mute_echoes() -> None:
    """Suppress log lines of libraries about an error that is raised and that the command prints."""
    logging.getLogger("aiormq.connection").addFilter(_is_no_echo)


def configure(form: Format, level: str) -> None:
    """Send Mutirão's records of at least `level` to standard error, and others from INFO.

    One record a line; those of child processes, too. `debug` applies to Mutirão alone: at that
    level botocore, aiormq and others log whole messages, with the arguments of jobs and the
    credentials that sign requests. Python's warnings are records, too: their texts may have line
    breaks, and come from handlers.
    """
    logging.captureWarnings(True)
    _use(LineHandler(FORMATTERS[form]()), level)
    log.of_children = partial(configure, form, level)


@contextmanager
def configured(form: Format, level: str) -> Iterator[None]:
    """Set up logging once the application is imported, in this block, unless it does so itself.

    It has done so if there is another handler then, of all records or of Mutirão's. Records of the
    meantime that have no handler are written like later ones.
    """
    handler, last = LineHandler(FORMATTERS[form]()), logging.lastResort
    handler.setLevel(logging.WARNING)
    before = _handlers()
    logging.lastResort = handler
    try:
        yield
    finally:
        logging.lastResort = last
    own = [each for each in _handlers() if each not in before]
    if all(map(_is_of_no_choice, own)):
        for each in own:
            logging.getLogger().removeHandler(each)
        configure(form, level)
    elif form != "text":
        log.warning(
            "the application sets up logging itself, so --log-format %s has no effect; have it use"
            " a formatter of mutirao.telemetry.logs",
            form,
        )


def _is_of_no_choice(handler: logging.Handler) -> bool:
    """Return whether a handler was added implicitly, as `logging.info` and its like do.

    `basicConfig` without a format adds such a handler, too.
    """
    written = handler.formatter
    return type(handler) is logging.StreamHandler and (
        written is not None and written._fmt == logging.BASIC_FORMAT
    )


def _use(handler: logging.Handler, level: str) -> None:
    handler.setLevel(level.upper())  # Django's logger has a level of its own: INFO
    root = logging.getLogger()
    root.addHandler(handler)
    django = logging.getLogger("django")
    for each in [*filter(_is_django_s_own, django.handlers)]:
        django.removeHandler(each)  # else each line of Django would be there twice
    root.setLevel(max(logging.INFO, logging.getLevelNamesMapping()[level.upper()]))
    logging.getLogger("mutirao").setLevel(level.upper())


def _is_django_s_own(handler: logging.Handler) -> bool:
    """Return whether a handler is the default one of Django's logging."""
    filters = [type(each).__name__ for each in handler.filters]
    return type(handler) is logging.StreamHandler and filters == ["RequireDebugTrue"]


def _handlers() -> list[logging.Handler]:
    return [*logging.getLogger().handlers, *logging.getLogger("mutirao").handlers]


def _is_no_echo(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_ECHOES)
