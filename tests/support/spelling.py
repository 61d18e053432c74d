"""Words of the documents that no dictionary of English has, and that are none of ours.

    python -m tests.support.spelling           # as `make check` does: prints where each is
    python -m tests.support.spelling --accept  # they are right: add them to words.txt

The words of the trade are in words.txt beside this file. Only words in small letters count: names
begin with a capital. Code is left out.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.support.documents import plain

ROOT = Path(__file__).parents[2]
OURS = Path(__file__).with_name("words.txt")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "docs/*.md"),
    *(f"docs/{room}/*.md" for room in ("howto", "reference", "from", "contributing", "adr")),
    *("deploy/README.md", "examples/README.md", "benchmarks/README.md"),
)
_WORD = re.compile(r"(?<![\w/.@'-])[a-z][a-z]+(?![\w@])")


def pages() -> list[Path]:
    """Return the pages that are read."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def unknown(paths: Iterable[Path], ours: Iterable[str]) -> dict[str, set[str]]:
    """Return the words that neither the dictionary nor `ours` has, with the places of each."""
    from spellchecker import SpellChecker  # in the group of the documents only

    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in paths:
        for line in plain(path.read_text(encoding="utf-8")).splitlines():
            for word in _WORD.findall(line):
                found[word].add(f"{path.name}: {line.strip()[:80]}")
    dictionary = SpellChecker()
    dictionary.word_frequency.load_words(ours)
    return {word: found[word] for word in dictionary.unknown(found)}


def main() -> int:
    """Say what is unknown; return the exit status."""
    ours = OURS.read_text(encoding="utf-8").split()
    wrong = unknown(pages(), ours)
    if "--accept" in sys.argv:
        OURS.write_text("\n".join(sorted({*ours, *wrong})) + "\n", encoding="utf-8")
        return 0
    for word, places in sorted(wrong.items()):
        print(f"{word!r} is in no dictionary: {min(places)}")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
