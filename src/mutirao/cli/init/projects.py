"""The kinds of projects that `init` starts: their files, templates and next steps."""

from dataclasses import dataclass
from importlib.resources import files
from string import Template

COMPOSE = "compose.jobs.yaml"  # beside a project's own


@dataclass(frozen=True)
class StartedProject:
    """A kind of project.

    Parameters:
        templates: the file of a project → its template. `PACKAGE` stands for its package.
        packages: the packages to install.
        commands: the beginning of Mutirão's commands, before their names.
        then: the next steps, a line each.
    """

    templates: dict[str, str]
    packages: str
    commands: str
    then: tuple[str, ...]

    def written(self, package: str) -> dict[str, str]:
        """Return the text of each file, for a package of this name."""
        there = files("mutirao.cli.init") / "templates"
        return {
            name.replace("PACKAGE", package): Template(
                (there / template).read_text(encoding="utf-8")
            ).substitute(self._words(package))
            for name, template in self.templates.items()
        }

    def _words(self, package: str) -> dict[str, str]:
        command, _, application = self.commands.partition("…")
        of = f" {application.replace('PACKAGE', package)}" if application else ""
        return {
            "package": package,
            "packages": self.packages,
            "migrate": f"{command}migrate{of}",
            "worker": f"{command}worker{of}",
        }

    def next(self, package: str) -> list[str]:
        """Return the next steps, for a package of this name."""
        return [line.replace("PACKAGE", package) for line in self.then]


_COMMON = {
    "PACKAGE/__init__.py": "package.py.txt",
    "PACKAGE/settings.py": "settings.py.txt",
    "PACKAGE/tasks.py": "tasks.py.txt",
}
_RUN = (
    "mutirao migrate PACKAGE.app:app",
    "mutirao worker PACKAGE.app:app",
)
PLAIN = StartedProject(
    {
        **_COMMON,
        "PACKAGE/app.py": "app.py.txt",
        "PACKAGE/test_jobs.py": "test_jobs.py.txt",
        "compose.yaml": "compose.yaml.txt",
    },
    "mutirao[postgresql]",
    "mutirao …PACKAGE.app:app",
    (
        "python -m pytest PACKAGE  # after pip install pytest",
        *_RUN,
        'mutirao enqueue PACKAGE.app:app greet \'{"name": "Ana"}\'',
    ),
)
FASTAPI = StartedProject(
    {
        **_COMMON,
        "PACKAGE/app.py": "app.py.txt",
        "PACKAGE/web.py": "fastapi_web.py.txt",
        "PACKAGE/test_jobs.py": "fastapi_test_jobs.py.txt",
        COMPOSE: "compose.yaml.txt",
    },
    "mutirao[postgresql]",
    "mutirao …PACKAGE.app:app",
    (
        "# in your application:",
        "#     from PACKAGE.web import lifespan, router",
        "#     web = FastAPI(lifespan=lifespan)   # or `async with lifespan: yield` in your own",
        "#     web.include_router(router)",
        "python -m pytest PACKAGE  # after pip install pytest httpx2",
        *_RUN,
    ),
)
FLASK = StartedProject(
    {
        **_COMMON,
        "PACKAGE/app.py": "flask_app.py.txt",
        "PACKAGE/web.py": "flask_web.py.txt",
        "PACKAGE/test_jobs.py": "flask_test_jobs.py.txt",
        COMPOSE: "compose.yaml.txt",
    },
    "mutirao[postgresql,flask]",
    "flask mutirao …",
    (
        "# in your application:",
        "#     from PACKAGE.app import app as jobs",
        "#     from PACKAGE.web import blueprint",
        "#     jobs.init_app(web)",
        "#     web.register_blueprint(blueprint)",
        "python -m pytest PACKAGE  # after pip install pytest",
        "flask mutirao migrate",
        "flask mutirao worker",
    ),
)
DJANGO = StartedProject(
    {
        "PACKAGE/__init__.py": "package.py.txt",
        "PACKAGE/apps.py": "django_apps.py.txt",
        "PACKAGE/tasks.py": "django_tasks.py.txt",
        "PACKAGE/tests.py": "django_tests.py.txt",
        COMPOSE: "django_compose.yaml.txt",
    },
    "mutirao[django,postgresql]",
    "python manage.py mutirao …",
    (
        "# in your settings:",
        '#     INSTALLED_APPS = [..., "mutirao.integrations.django", "PACKAGE"]',
        "#     DATABASES: on SQLite with",
        '#     "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"}',
        "python manage.py migrate",
        "python manage.py test PACKAGE",
        "python manage.py mutirao worker",
    ),
)
