"""The suites themselves: nothing of them hides behind anything else."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import get_type_hints

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

import mutirao_conformance
from mutirao.ports import Store
from mutirao_conformance import NotifierContract, StoreContract
from tests.support.parts import PARTS

SUITES = [each.name for each in iter_modules(mutirao_conformance.__path__)]
# What a backend shows for itself.
ITS_OWN = {"cut", "declare_supersede", "judge"}


def calls_of(port: type) -> set[str]:
    """Return the names of the calls of a protocol."""
    return {
        name
        for each in port.__mro__
        if each.__module__.startswith("mutirao.ports")
        for name, call in vars(each).items()
        if callable(call) and not name.startswith("_")
    }


@pytest.mark.parametrize("suite", SUITES)
def test_what_fails_is_explained(suite: str) -> None:
    """An assertion says what it compared, in whichever file it is."""
    module = import_module(f"mutirao_conformance.{suite}")
    assert isinstance(module.__loader__, AssertionRewritingHook)


def test_every_call_of_a_store_has_a_test() -> None:
    """But for those that `StoreContract` names."""
    parts = [get_type_hints(vars(Store)[name].fget)["return"] for name in PARTS]
    calls = calls_of(Store).union(*map(calls_of, parts))
    files = Path(mutirao_conformance.__path__[0]).glob("*.py")
    source = "\n".join(each.read_text() for each in files)
    assert {name for name in calls if not re.search(rf"\.{name}\b", source)} == ITS_OWN
    assert [name for name in ITS_OWN if f"`{name}`" not in str(StoreContract.__doc__)] == []


@pytest.mark.parametrize("contract", [StoreContract, NotifierContract])
def test_no_test_hides_another(contract: type) -> None:
    """Two topics with a test of the same name would leave one of them unrun."""
    found = defaultdict(set)
    for part in contract.__mro__:
        for name, test in vars(part).items():
            if name.startswith("test_"):
                found[name].add(test)
    assert len(found) > 8
    assert [name for name, tests in found.items() if len(tests) > 1] == []
