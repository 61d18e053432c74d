"""The application of a Django project for programs without `manage.py`.

    DJANGO_SETTINGS_MODULE=shop.settings mutirao worker mutirao.integrations.django.ready:app

The processes of `manage.py mutirao worker --processes 4` start with it, too.
"""

import django

django.setup()

from mutirao.integrations.django.project import application  # noqa: E402 (its apps are ready now)

app = application()
