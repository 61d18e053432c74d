"""What pages read: `mutirao.ports.reading`."""

from mutirao.sql.statements.finding import figures as sums, paging, standing as standings
from mutirao.sql.store.part import StorePart, looking, reading


class SqlReading(StorePart):
    """`store.reading`."""

    page = looking(paging.page)
    how_many = looking(paging.how_many)
    figures = looking(sums.figures)
    hours = reading(sums.hours)
    minutes = reading(sums.minutes)
    waits = reading(sums.waits)
    errors = reading(sums.errors)
    running = looking(sums.running)
    standing = reading(standings.standing)
