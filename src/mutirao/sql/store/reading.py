"""What pages read: `mutirao.ports.reading`."""

from mutirao.sql.statements.finding import figures as sums, paging, standing as standings
from mutirao.sql.store.part_calls import StorePart, read, read_many


class SqlReading(StorePart):
    """`store.reading`."""

    page = read_many(paging.page)
    how_many = read_many(paging.how_many)
    figures = read_many(sums.figures)
    hours = read(sums.hours)
    minutes = read(sums.minutes)
    waits = read(sums.waits)
    errors = read(sums.errors)
    running = read_many(sums.running)
    standing = read(standings.standing)
