"""The times of `beat_schedule`, as our schedules have them."""

from collections.abc import Iterable
from typing import Any

from mutirao.integrations.celery.refusing import refusal

_Field = str | int | Iterable[int]


class crontab:  # noqa: N801 (as it is called there)
    """Times of day: those of Celery's `crontab`, which are those of a cron line.

    Parameters:
        minute, hour, day_of_week, day_of_month, month_of_year: as a cron line has them, a number,
            or several.
    """

    def __init__(
        self,
        minute: _Field = "*",
        hour: _Field = "*",
        day_of_week: _Field = "*",
        day_of_month: _Field = "*",
        month_of_year: _Field = "*",
        **others: Any,
    ) -> None:
        if others:
            raise refusal(
                f"crontab({', '.join(sorted(others))})", "give add_beat_schedule(timezone=)",
                "schedules",
            )  # fmt: skip
        fields = (minute, hour, day_of_month, month_of_year, day_of_week)
        self.line = " ".join(map(_text, fields))
        if "*" not in (fields[2], fields[4]):
            raise refusal(
                f"crontab({self.line!r}) of both a day of the month and one of the week",
                "there both have to match, here one is enough; have the task look at one of them",
                "schedules",
            )

    def __repr__(self) -> str:
        return f"<crontab: {self.line}>"


def _text(field: _Field) -> str:
    if isinstance(field, str | int):
        return str(field).replace(" ", "")
    return ",".join(map(str, sorted(field)))
