"""The settings of a project with django-ca."""

SECRET_KEY = "of a trial"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "authority.urls"
INSTALLED_APPS = [
    *(f"django.contrib.{n}" for n in ("auth", "contenttypes", "sessions", "messages", "admin")),
    *("django_object_actions", "mutirao.integrations.django", "django_ca", "authority"),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
CONTEXT = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": CONTEXT},
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "ca.db",
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
    }
}
FILES = "django.core.files.storage.FileSystemStorage"
STORAGES = {
    "default": {"BACKEND": FILES},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "django-ca": {"BACKEND": FILES, "OPTIONS": {"location": "files"}},
}
CA_DEFAULT_HOSTNAME = "ca.example"
CA_USE_CELERY = True  # it asks whether Celery is installed, too
MUTIRAO = {"MODULES": ["tasks", "beat"]}
