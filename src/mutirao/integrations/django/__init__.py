"""Mutirão in a Django project: an app for `INSTALLED_APPS`, a backend for `TASKS`.

    INSTALLED_APPS = [..., "mutirao.integrations.django"]
    TASKS = {"default": {"BACKEND": "mutirao.integrations.django.MutiraoBackend"}}

`app` is the one application of the project, for native tasks: `@app.task` in a module `tasks` of
any installed app. It is made of `settings.DATABASES` when it is first needed, and opens no
connection then. Nothing is loaded before it is asked for: Django imports this package before its
apps are ready.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mutirao.integrations.django.backend import MutiraoBackend as MutiraoBackend
    from mutirao.integrations.django.project import DjangoMutirao

    app: DjangoMutirao

__all__ = ["MutiraoBackend", "app"]


def __getattr__(name: str) -> Any:
    if name == "app":
        from mutirao.integrations.django.project import application

        return application()
    if name == "MutiraoBackend":
        from mutirao.integrations.django.backend import MutiraoBackend

        return MutiraoBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
