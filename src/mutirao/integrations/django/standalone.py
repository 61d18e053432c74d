"""The application for programs that have not set Django up, such as the command `mutirao`.

    DJANGO_SETTINGS_MODULE=kiosk.settings mutirao worker mutirao.integrations.django.standalone:app

Asking for `app` sets Django up, which imports the tasks of all installed apps.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mutirao.integrations.django.project import DjangoMutirao

    app: DjangoMutirao


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import django

    from mutirao.integrations.django.project import application

    django.setup()
    return application()
