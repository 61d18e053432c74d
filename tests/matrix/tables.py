"""The tables of the documents, made of `results.json`.

    python -m tests.matrix.tables

writes them between the lines `<!-- matrix: MySQL, MariaDB -->` and `<!-- end of matrix -->` of each
page; the words are products, and each row of theirs is a line. A test holds that pages have what
the file says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.matrix.interpreters import CLONE
from tests.matrix.results import Result, read

_PLACE = re.compile(
    r"(?P<head><!-- matrix: (?P<products>[^>]+) -->\n).*?(?P<foot><!-- end of matrix -->)",
    re.DOTALL,
)
_TOP = "| | what ran, and when |\n|---|---|\n"
_OPTION = re.compile(r" -k .*| --\S+")


def pages() -> list[Path]:
    """Return the pages that have such a table."""
    docs = CLONE / "docs"
    every = [CLONE / "README.md", docs / "contributing/matrix.md", *sorted(docs.glob("*.md"))]
    return [page for page in every if _PLACE.search(page.read_text(encoding="utf-8"))]


def filled(text: str, results: Iterable[Result]) -> str:
    """Return a page with its tables as the results have it."""
    kept = list(results)

    def fill(place: re.Match[str]) -> str:
        products = place["products"].split(", ")
        lines = (line(each) for each in kept if each.product.partition(",")[0] in products)
        return f"{place['head']}{_TOP}{''.join(lines)}{place['foot']}"

    return _PLACE.sub(fill, text)


def line(result: Result) -> str:
    """Return the line of a row, as a table of Markdown has it."""
    name, _, more = result.product.partition(",")
    return f"| {name} {result.version}{f',{more}' if more else ''} | {_result_text(result)} |\n"


def _result_text(result: Result) -> str:
    if result.missing:
        return f"**not run**: {result.missing}"
    ran = f"{result.passed:,} tests of {_places(result)} passed"
    if result.failed:
        ran += f", **{result.failed} failed**"
    if result.again:
        ran += f", {len(result.again)} of them only when tried again"
    return f"{ran}. {result.date}"


def _places(result: Result) -> str:
    """Return which parts of the tests these are, in one or two words each."""
    paths = _OPTION.sub("", " ".join(("", *result.tests))).split()
    names = (Path(path.partition("::")[0]) for path in paths)
    return ", ".join(
        dict.fromkeys(f"`{path.parent.name if path.suffix else path.name}`" for path in names)
    )


def main() -> None:
    """Write the tables of all pages."""
    results = read()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text, results), encoding="utf-8")


if __name__ == "__main__":
    main()
