"""An environment for each Django, with what its tests need, and the tests that a Django decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.matrix.interpreters import Interpreter, install

_OF_DJANGO = "tests/integration/integrations/test_django"
TESTS = (
    *(f"{_OF_DJANGO}{each}.py" for each in ("", "_backend")),
    "tests/integration/django_data",
    "tests/acceptance/test_with_django.py",
)
_EXTRAS = "postgresql,psycopg2,mysql,mysqlclient,web,django"
_TOOLS = ("pytest>=8.4", "pytest-asyncio", "pytest-xdist", "pytest-django", "hypothesis")


@dataclass(frozen=True)
class WithDjango(Interpreter):
    """A Python with one Django, whichever the group `dev` has, and without the rest of that.

    Parameters:
        django: such as `6.0`.
    """

    django: str = ""

    @property
    def name(self) -> str:
        """How its directory is called."""
        return f"{super().name}-django-{self.django}"

    def asks(self) -> list[str | Path]:
        """Return the command that tells which Django is there."""
        return [self.made(), "-m", "django", "--version"]

    def _install(self, place: Path) -> None:
        ours = ("-e", f".[{_EXTRAS}]", "-e", "./conformance")
        install(place, *ours, *_TOOLS, f"django~={self.django}.0")
