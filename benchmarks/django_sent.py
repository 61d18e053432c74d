"""The task that `benchmarks.django_drain` has done."""

from __future__ import annotations

from django.tasks import task


@task
def send(order: int) -> None:
    """Do nothing."""
