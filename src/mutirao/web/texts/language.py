"""One language: its texts, and how it writes numbers, lengths of time and moments."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from mutirao.web.texts.english import ENGLISH
from mutirao.web.texts.portuguese import PORTUGUESE

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


@dataclass(frozen=True, slots=True)
class Language:
    """A language. `code` is that of HTML and HTTP."""

    code: str
    name: str
    texts: Mapping[str, str]
    decimal: str
    thousands: str

    def __call__(self, key: str, /, **facts: object) -> str:
        """Return a text, with facts in it; that of one, where `n` is 1 and there is such a text."""
        if facts.get("n") == 1 and f"{key}.one" in self.texts:
            key = f"{key}.one"
        text = self.texts[key]
        if not facts:
            return text
        said = {name: self.number(each) for name, each in facts.items()}
        return text.format_map(said)

    def number(self, value: object, digits: int | None = None) -> str:
        """Return a number as this language writes it; other values as they are."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value)
        shape = ",d" if isinstance(value, int) and digits is None else f",.{digits or 0}f"
        marks = {",": self.thousands, ".": self.decimal}
        return "".join(marks.get(each, each) for each in format(value, shape))

    def percent(self, part: float) -> str:
        """Return a part of one as percent."""
        return f"{self.number(part * 100, 0 if part == 0 or part >= 0.1 else 1)}%"

    def length(self, seconds: float) -> str:
        """Return a length of time in its largest unit: 340 ms, 2.4 s, 3 min, 5 h, 2 d."""
        if seconds < 1:
            return f"{self.number(seconds * 1000, 0)} ms"
        if seconds < 10:
            return f"{self.number(seconds, 1)} s"
        if seconds < 60:
            return f"{self.number(seconds, 0)} s"
        for unit, size in _UNITS:
            if seconds >= size:
                whole, rest = divmod(round(seconds), size)
                smaller = {"d": ("h", 3_600), "h": ("min", 60), "min": ("s", 1)}[unit]
                more = rest // smaller[1]
                few = f" {more} {smaller[0]}" if more and whole < 10 else ""
                return f"{self.number(whole)} {unit}{few}"
        raise AssertionError("a minute is the smallest unit")

    def ago(self, moment: datetime, now: datetime) -> str:
        """Return how long ago a moment is, or how far ahead."""
        seconds = (now - moment).total_seconds()
        if abs(seconds) < 1:
            return self("time.now")
        return self("time.ago" if seconds > 0 else "time.ahead", length=self.length(abs(seconds)))


LANGUAGES: Mapping[str, Language] = {
    "en": Language("en", "English", ENGLISH, ".", ","),
    "pt-BR": Language("pt-BR", "Português", PORTUGUESE, ",", "."),
}


def accepted(header: str) -> Language:
    """Return the language that a browser accepts first of those there are; English unless any."""
    wanted: list[tuple[float, int, str]] = []
    for place, each in enumerate(header[:500].split(",")):
        name, _, quality = each.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        wanted.append((-weight, place, name.strip().lower()))
    for weight, _, name in sorted(wanted):
        if weight < 0 and name.split("-")[0] in ("en", "pt"):
            return LANGUAGES["pt-BR" if name.startswith("pt") else "en"]
    return LANGUAGES["en"]
