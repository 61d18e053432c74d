"""The backend for `TASKS`: `django.tasks` on the jobs of the project's application."""

from mutirao.integrations.django.compat import BaseTaskBackend


class MutiraoBackend(BaseTaskBackend):  # type: ignore[misc]
    """Enqueues tasks of `django.tasks` as jobs."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
