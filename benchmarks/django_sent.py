"""The task that `benchmarks.django_drain` has done."""

from __future__ import annotations

from django.tasks import task


@task  # type: ignore[untyped-decorator]
def send(order: int) -> None:
    """Do nothing."""
