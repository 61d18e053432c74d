"""The app of `INSTALLED_APPS`: label `mutirao`."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from mutirao.integrations.django.project import application


class MutiraoConfig(AppConfig):  # type: ignore[misc]
    """Makes the application of the project, and imports the tasks of its installed apps."""

    name = "mutirao.integrations.django"
    label = "mutirao"
    verbose_name = "Mutirão"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import the modules with tasks, when all models are there."""
        autodiscover_modules(*application().conf.modules)
