"""The site of the documents: what `make docs`, where a warning is an error, cannot see."""

from __future__ import annotations

import html
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import mutirao
import mutirao.errors
import mutirao.federation
import mutirao.testing
import mutirao.web
import mutirao.webhooks
from tests.matrix.extras import IMPORTS
from tests.matrix.first_examples import EXAMPLES
from tests.support.documents import blocks

ROOT = Path(__file__).parents[2]
PACKAGES = (mutirao, mutirao.testing, mutirao.webhooks, mutirao.federation, mutirao.web)


@pytest.mark.parametrize("drawing", sorted(ROOT.glob("docs/drawings/*.dot")), ids=lambda d: d.stem)
def test_a_picture_shows_its_drawing(drawing: Path) -> None:
    """`make drawings` was run after the last change: each label is in the picture."""
    picture = (ROOT / "docs" / "images" / f"{drawing.stem}.svg").read_text()
    shown = {html.unescape(each) for each in re.findall(r"<text [^>]*>([^<]*)</text>", picture)}
    labels = re.findall(r'label="([^"]*)"', drawing.read_text())
    assert {line for label in labels for line in label.split("\\n")} <= shown


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_public_names_have_docstrings(package: ModuleType) -> None:
    """The reference is made from them, so nothing public lacks one."""
    missing = [name for name in package.__all__ if not _documented(getattr(package, name))]
    assert missing == []


def test_errors_have_docstrings() -> None:
    """Each class says when it is raised."""
    classes = inspect.getmembers(mutirao.errors, inspect.isclass)
    assert [name for name, each in classes if not each.__doc__] == []


def _documented(thing: object) -> bool:
    if not inspect.isclass(thing):
        return not inspect.isroutine(thing) or bool(thing.__doc__)
    public = [
        each
        for name, each in vars(thing).items()
        if not name.startswith("_") and (inspect.isroutine(each) or isinstance(each, property))
    ]
    return bool(thing.__doc__) and all(inspect.getdoc(each) for each in public)


def test_each_extra_is_tried_alone() -> None:
    """`make extras` knows them all."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*declared["optional-dependencies"]} == {*IMPORTS} - {""}
    assert EXAMPLES.keys() == IMPORTS.keys()


def test_the_citation_names_this_version() -> None:
    """The version stands in two files."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_readme_is_short() -> None:
    """One drawing and one picture; what is more belongs on a page."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert re.findall(r"!\[[^]]*\]\(docs/images/(\w+)", text) == ["fleet", "dashboard"]


def test_the_readme_in_portuguese_pairs_up() -> None:
    """It has as many headings of each level, the same blocks, and links to the same pages."""
    english, portuguese = ((ROOT / name).read_text() for name in ("README.md", "README.pt-BR.md"))
    assert _levels(portuguese) == _levels(english)
    assert list(_bodies(portuguese)) == list(_bodies(english))
    assert _pages(portuguese) == _pages(english)


def _levels(text: str) -> list[str]:
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+(?= )", outside, re.MULTILINE)


def _bodies(text: str) -> Iterator[tuple[str, str]]:
    return ((block.kind, block.body) for block in blocks(text))


def _pages(text: str) -> set[str]:
    return {*re.findall(r"\]\((?!README)([^)#\s]+)", text)}
