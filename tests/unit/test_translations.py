"""Translated pages pair up with their originals: headings, names in code, and links.

Blocks of code are in no catalogue, so they are the original's. `make docs LOCALE=pt_BR` sees what
Sphinx sees; this needs nothing of it. `make catalogues` writes the catalogues anew from the pages.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "site" / "locale" / "pt_BR" / "LC_MESSAGES"
CATALOGUES = sorted(str(path.relative_to(PLACE).with_suffix("")) for path in PLACE.rglob("*.po"))
# What people need first, of what there is.
NEEDED = {
    *("index", "tutorial", "when-not", "guarantees", "deploy", "upgrading", "limits", "tenants"),
    *("outbox", "webhooks", "schedules", "topics", "uniqueness", "worker", "tasks"),
}
_STRING = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'


def catalogue(text: str) -> dict[str, str]:
    """Return what is translated, original by original; the first entry, its header, is left out."""
    found = re.findall(rf"^msgid {_STRING}^msgstr {_STRING}", text, re.MULTILINE)
    read = {
        ast.literal_eval(f"({original})"): ast.literal_eval(f"({translation})")
        for original, translation in found
    }
    return {original: each for original, each in read.items() if original}


def faults(page: str, texts: dict[str, str]) -> list[str]:
    """Return what is stale or does not pair up, in words."""
    said = " ".join(page.split())
    found = [f"the page no longer says {each!r}" for each in texts if each not in said]
    for original, translation in texts.items():
        for what, pattern in (("code", r"`[^`]+`"), ("link", r"\]\(([^)\s]+)\)")):
            if translation and _counted(pattern, original) != _counted(pattern, translation):
                found.append(f"the {what} of {original!r} is not that of {translation!r}")
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S), re.M)
    found += [f"{each!r} is not translated" for each in texts if not texts[each]]
    return [*found, *(f"no heading {each!r}" for each in headings if not texts.get(each))]


def _counted(pattern: str, text: str) -> Counter[str]:
    return Counter(re.findall(pattern, text))


@pytest.mark.parametrize("page", CATALOGUES)
def test_a_translated_page_pairs_up(page: str) -> None:
    """None of its texts is stale, each heading is there, and code and links are the original's."""
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    assert faults(text, catalogue((PLACE / f"{page}.po").read_text(encoding="utf-8"))) == []


def test_what_people_need_first_is_translated() -> None:
    """A page that was translated does not go back to English as a whole."""
    assert {f"docs/{each}" for each in NEEDED} <= {*CATALOGUES}


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ('msgid "Gone."\nmsgstr "Foi."\n', "no longer says 'Gone.'"),
        ('msgid "Call `a`."\nmsgstr "Chame `b`."\n', "the code of"),
        ('msgid "See [it](a.md)."\nmsgstr "Veja [isso](b.md)."\n', "the link of"),
        ('msgid "Call `a`."\nmsgstr ""\n', "is not translated"),
        ('msgid "Call `a`."\nmsgstr "Chame `a`."\n', "no heading 'Use'"),
    ],
)
def test_what_does_not_pair_up_is_noticed(entry: str, fault: str) -> None:
    """The test above can fail, and says where."""
    found = faults("# Use\n\nCall `a`. See [it](a.md).\n", catalogue(entry))
    assert any(fault in each for each in found)


def test_a_text_on_several_lines_is_read() -> None:
    """As the catalogues have long ones, with marks of their own."""
    header = 'msgid ""\nmsgstr ""\n"Language: pt_BR\\n"\n\n'
    text = header + 'msgid ""\n"one \\"two\\" "\n"three"\nmsgstr ""\n"um"\n'
    assert catalogue(text) == {'one "two" three': "um"}
