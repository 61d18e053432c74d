"""The app of `INSTALLED_APPS`: label `mutirao`."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.module_loading import autodiscover_modules

from mutirao.integrations.django import system_checks
from mutirao.integrations.django.project import DjangoMutirao, application
from mutirao.integrations.django.tables.flushing import empty_after_flush
from mutirao.integrations.django.tables.run_revision import prepare_file


class MutiraoConfig(AppConfig):  # type: ignore[misc]
    """Makes the application of the project, and imports the tasks of its installed apps."""

    name = "mutirao.integrations.django"
    label = "mutirao"
    verbose_name = "Mutirão"
    default_auto_field = "django.db.models.BigAutoField"

    @property
    def application(self) -> DjangoMutirao:
        """The application of the project."""
        return application()

    def ready(self) -> None:
        """Import the modules with tasks, once all models are loaded; register checks."""
        system_checks.register()
        pre_migrate.connect(prepare_file, dispatch_uid="mutirao")
        post_migrate.connect(empty_after_flush, sender=self, dispatch_uid="mutirao")
        autodiscover_modules(*application().conf.modules)
