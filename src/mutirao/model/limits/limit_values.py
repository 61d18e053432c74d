"""The value that limits count and turns are taken by: tenant, group, or an argument's."""

from typing import NamedTuple

from mutirao.model import row_json

MAX_VALUE = 200  # characters of an argument's value that are compared


class Whose(NamedTuple):
    """Tenant and group of a job: limits and turns may count by these options, too."""

    tenant: str | None = None
    group: str | None = None


NOBODY = Whose()


def value_of(args: str, by: str, whose: Whose = NOBODY) -> str:
    """Return the value of an argument as text, or else that option of the job; or else ''.

    Arguments that cannot be read have no values: the attempt that reads them reports the error.
    """
    try:
        value = row_json.read(args).get(by)
        if value is None:
            value = whose._asdict().get(by)
        return "" if value is None else row_json.in_words(value, MAX_VALUE)
    except (row_json.UnreadableRow, AttributeError):
        return ""
