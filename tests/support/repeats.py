"""A pytest plugin: runs repetitions of tests that are decided elsewhere on demand only.

    @pytest.mark.repeats("mysql", decided="tests/conformance/test_mariadb.py")

marks the cases of a test (or class, or module, as `pytestmark`) with one of these words in their
brackets, or with one as all that is in them; or all cases where no word is given. `make test-all`
runs them, too, by `pytest --repeats`, and takes all the examples of which `share` gives a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mutirao_conformance import DriverContract, StoreContract

Share = Callable[[int], int]
LESS = 3  # one of so many examples is tried: each run draws others, which add up over the runs


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("repeats")
    group.addoption("--repeats", action="store_true", help="run what other tests decide, too")
    group.addoption(
        "--drivers", action="store_true", help="of a store's contract, only what a driver decides"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "repeats(*cases, decided): needs --repeats; says where else")


@pytest.fixture(scope="session")
def share(pytestconfig: pytest.Config) -> Share:
    """Return how many of so many examples are tried: a third, or all."""
    return lambda all: all if pytestconfig.getoption("repeats") else -(-all // LESS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for."""
    left: list[pytest.Item] = []
    if not config.getoption("repeats"):
        left += [item for item in items if any(_repeated(item))]
    if config.getoption("drivers"):
        left += [item for item in items if not _of_drivers(item)]
    if left:
        out = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in out]
        config.hook.pytest_deselected(items=left)


def _repeated(item: pytest.Item) -> Iterator[bool]:
    case = item.name.partition("[")[2].rstrip("]")
    words = [case, *case.split("-")]
    for mark in item.iter_markers("repeats"):
        decided = item.config.rootpath / mark.kwargs["decided"]
        if not decided.exists():
            raise pytest.UsageError(f"{item.nodeid} repeats {decided}, which is not there")
        yield not mark.args or not {*mark.args}.isdisjoint(words)


def _of_drivers(item: pytest.Item) -> bool:
    """Return whether this is no test of a store, or one whose outcome a driver decides."""
    kind, name = getattr(item, "cls", None), getattr(item, "originalname", item.name)
    return kind is None or not issubclass(kind, StoreContract) or hasattr(DriverContract, name)
