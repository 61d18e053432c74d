"""Moments with a meaning: the epoch of databases, and one before the time of any job."""

from datetime import UTC, datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEFORE_ALL_JOBS = datetime(1, 1, 2, tzinfo=UTC)
