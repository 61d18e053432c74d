"""Write the catalogues of translated pages anew from the pages: `make catalogues`.

A text that is no longer on its page leaves the catalogue, and a new one comes without translation,
so that it stays English until it has one. Prints how many texts of each page have none.

A file of lines `NUMBER<tab>translation` fills in what is missing: `--fill docs/limits=FILE`; the
numbers are those that `--show docs/limits` prints, with the texts. `--texts FILE.po` has
translations of any page, by the original.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parents[1]
LOCALE = "pt_BR"
PLACE = ROOT / "docs" / "site" / "locale" / LOCALE / "LC_MESSAGES"
WIDTH = 120
# A fixed moment, so that writing the same again changes nothing.
_MADE = datetime(2026, 11, 27, tzinfo=UTC)


def main() -> int:
    """Update each catalogue, and show or fill those that were asked for."""
    parser = argparse.ArgumentParser(prog="python scripts/catalogues.py", description=__doc__)
    parser.add_argument("--show", metavar="PAGE")
    parser.add_argument("--fill", action="append", default=[], metavar="PAGE=FILE")
    parser.add_argument("--texts", type=Path, metavar="FILE.po")
    asked = parser.parse_args()
    more = _known(asked.texts)
    fills = dict(each.split("=", 1) for each in asked.fill)
    with tempfile.TemporaryDirectory() as place:
        _extract(Path(place))
        if asked.show:
            for number, message in enumerate(_texts(_read(Path(place, f"{asked.show}.pot")))):
                print(f"{number}\t{message.id}")
            return 0
        translated = {str(each.relative_to(PLACE).with_suffix("")) for each in PLACE.rglob("*.po")}
        for page in sorted(translated | fills.keys()):
            catalogue = _updated(page, _read(Path(place, f"{page}.pot")), more)
            if page in fills:
                _fill(catalogue, Path(fills[page]))
            _write(page, catalogue)
    return 0


def _extract(place: Path) -> None:
    words = ["-q", "-b", "gettext", "-c", str(ROOT / "docs" / "site"), str(ROOT), str(place)]
    subprocess.run([sys.executable, "-m", "sphinx", *words], check=True)


def _read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=LOCALE)


def _texts(catalogue: Catalog) -> list[Message]:
    return [each for each in catalogue if each.id]


def _known(path: Path | None) -> dict[object, object]:
    """Return the translations of a catalogue, by the original; none, if there is no such file."""
    if path is None or not path.exists():
        return {}
    return {each.id: each.string for each in _read(path) if each.id and each.string}


def _updated(page: str, template: Catalog, more: dict[object, object]) -> Catalog:
    """Return a catalogue of what the page says now, with the translations that there are."""
    known = more | _known(PLACE / f"{page}.po")
    catalogue = Catalog(
        locale=LOCALE, project="Mutirão", header_comment="# Brazilian Portuguese, by page.",
        creation_date=_MADE, revision_date=_MADE, fuzzy=False, last_translator="", language_team="",
    )  # fmt: skip
    for each in _texts(template):
        catalogue.add(each.id, str(known.get(each.id) or _same(str(each.id))))
    return catalogue


def _same(text: str) -> str:
    """Return a text that is code and numbers alone, which every language has as it is."""
    return "" if re.search(r"[^\W\d_]{2}", re.sub(r"`[^`]*`", "", text)) else text


def _fill(catalogue: Catalog, path: Path) -> None:
    texts = _texts(catalogue)
    for line in path.read_text(encoding="utf-8").splitlines():
        number, _, translation = line.partition("\t")
        texts[int(number)].string = translation


def _write(page: str, catalogue: Catalog) -> None:
    path = PLACE / f"{page}.po"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalogue, width=WIDTH)
    texts = _texts(catalogue)
    without = sum(not each.string for each in texts)
    print(f"{page}: {len(texts)} texts, {without} without translation")


if __name__ == "__main__":
    sys.exit(main())
