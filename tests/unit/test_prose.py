"""The documents are in plain English: sentences are short, and words are those of the trade.

A few rules that a machine can see, so that nobody has to argue about them in a review. DESIGN's
words for jobs and attempts are in docs/glossary.md; what is forbidden here has a plainer word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import plain

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
        *(
            page
            for each in ("*", "howto/*", "reference/*")
            for page in sorted(DOCS.glob(f"{each}.md"))
        ),
    )
}
MEAN = 20  # words a sentence, over a page
LONGEST = 50  # words of any sentence that is not in a table
SHORTEST = 4  # words; a heading in bold or a lone name is no sentence

# A pattern, without regard to case, and what to write instead.
FORBIDDEN = {
    r"who(?:so)?ever\b": "any worker that, each program that",
    r"(?-i:Who)\b(?![^.]*\?)": "a program that, a worker that",
    r"somebody\b": "a person, another program, or the passive",
    r"so (?:is|are|was|were|does|do|did|has|have|can)\b(?! not)": "also",
    r"likewise\b": "also, the same",
    r"(?:where|there)(?:from|of|in|upon|to)\b": "from which, of it, in it",
    r"hitherto\b": "until now",
    r"(?:is|are|was|were|be|been|being) told\b": "is informed, is configured, is notified",
    r"told (?:so|otherwise|nothing|apart)\b": "configured, otherwise; distinguished",
    r"tells? (?:\w+ )?apart\b": "distinguishes",
    r"apart\b(?! from)": "separately, as a single part",
    r"beforehand\b": "before, first",
    r"anew\b": "again",
    r"where it were\b": "where there were, where it was",
    r"(?:is|are|was|were) said\b": "is sent, is stated, is described",
    r"heeds?\b": "obeys, reacts to",
    r"mend(?:s|ed|ing)?\b": "repair, fix",
    r"as good as\b": "almost",
}


def words(sentence: str) -> int:
    """Count them; a piece of code is one."""
    return len(re.findall(r"[\w'’-]+", sentence))


def passages(text: str) -> Iterator[tuple[str, bool]]:
    """Yield paragraphs, items of lists and cells of tables, and whether it is a cell."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[#|])", plain(text)):
        passage = " ".join(paragraph.split())
        if passage.startswith("|"):
            yield from ((cell, True) for cell in passage.strip("| ").split(" | "))
        elif not passage.startswith("#"):
            yield re.sub(r"^(?:[-*]|\d+\.) ", "", passage), False


def sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence of a page, and whether it stands in a table."""
    for passage, in_table in passages(text):
        for sentence in re.split(r"(?<=[.!?:])\s+(?=[^a-z])", passage):
            if words(sentence) >= SHORTEST:
                yield sentence, in_table


def too_long_in(text: str) -> list[str]:
    """Return the sentences that are too long, and the mean if that is."""
    every = [(words(sentence), sentence, cell) for sentence, cell in sentences(text)]
    broken = [
        f"{count} words; write two sentences: {sentence}"
        for count, sentence, in_table in every
        if count > LONGEST and not in_table
    ]
    mean = sum(count for count, _, _ in every) / max(len(every), 1)
    if mean > MEAN:
        broken.append(f"{mean:.1f} words a sentence on average; at most {MEAN}")
    return broken


def forbidden_in(text: str) -> Iterator[str]:
    """Yield each forbidden word with its passage and the plainer one."""
    for passage, _ in passages(text):
        for pattern, instead in FORBIDDEN.items():
            for match in re.finditer(rf"\b{pattern}", passage, re.IGNORECASE):
                yield f"{match[0]!r}, write {instead!r}: {passage}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_in_plain_english(page: str) -> None:
    """Its sentences are short, and it has none of the forbidden words."""
    text = PAGES[page].read_text(encoding="utf-8")
    words_left = list(forbidden_in(text))
    assert words_left == []
    assert too_long_in(text) == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("Whoever claims a job runs it.", "any worker that"),
        ("A worker is told\nto end.", "is informed"),
        ("- Rows are locked, and so are tables.", "also"),
        ("| a | somebody cancelled it |", "a person"),
        ("[Who runs it](page.md) is shown.", "a program that"),
        ("A worker " + "claims a job and " * 15 + "ends.", "write two sentences"),
        ("This sentence has " + "many words and " * 7 + "ends.", "on average"),
    ],
)
def test_a_page_that_breaks_a_rule_is_noticed(text: str, broken: str) -> None:
    """The test above can fail, and says what to write instead."""
    assert any(broken in each for each in (*forbidden_in(text), *too_long_in(text)))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nwhoever()\n```",
        "`somebody` is a name, as is `told`.",
        "Who runs this job?",
        "The blocks apart from the first one are short.",
        "| a | " + "cells of tables may be long " * 12 + "|",
        "See [the page](whoever.md) for the rest.",
    ],
)
def test_what_is_allowed(text: str) -> None:
    """Code, questions and the other meanings of a word."""
    assert [
        *forbidden_in(text),
        *(each for each in too_long_in(text) if "average" not in each),
    ] == []
