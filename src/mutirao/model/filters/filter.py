"""The filter language: one text that says which jobs are meant.

`state:dead task:send_* -queue:mail id:7..90 older:2h`: all terms have to match, and each is a
qualifier with values of which one has to match. The same text selects on pages, in the API, on the
command line and for actions on many jobs. Parsing is bounded, and raises nothing but InvalidFilter.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from mutirao.errors import InvalidFilter
from mutirao.model.filters.conditions import Aspect, Between, Exactly, Like, Term
from mutirao.model.filters.qualifiers import (
    EARLIEST,
    QUALIFIERS,
    Age,
    Qualifier,
    UnfitValue,
    Word,
    Written,
    did_you_mean,
    in_quotes,
    quoted,
    scalar_written,
    written,
)
from mutirao.model.jobs.records import JobFilter

MAX_TEXT = 2_000  # characters
MAX_TERMS = 30
MAX_VALUES = 50  # of a term
_IDS = re.compile(r"[0-9]+(?:\.\.[0-9]*)?")  # ids need no qualifier
_ENDS = '",'  # besides spaces, these end a word


@dataclass(frozen=True, slots=True)
class SaidTerm:
    """A term as written: its qualifier, its values, and the argument's name, if it is one."""

    qualifier: str
    values: tuple[Written, ...]
    negated: bool = False
    name: str = ""

    def __str__(self) -> str:
        """Return its text."""
        write = scalar_written if self.name else written
        values = ",".join(map(write, self.values))
        name = f".{_name(self.name)}" if self.name else ""
        return f"{'-' if self.negated else ''}{self.qualifier}{name}:{values}"

    def at(self, now: datetime) -> Term:
        """Return the term in the form that the store takes."""
        aspect = QUALIFIERS[self.qualifier].aspect
        values = tuple(_resolved(self.qualifier, value, now) for value in self.values)
        return Term(aspect, values, self.negated, self.name)


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; its text, `str(filter)`, parses to the same filter again.

    It is false if it has no terms; it then matches all jobs.
    """

    terms: tuple[SaidTerm, ...] = ()

    def __str__(self) -> str:
        """Return its text."""
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        """Return whether it has terms."""
        return bool(self.terms)

    def __add__(self, other: "Filter") -> "Filter":
        """Return the filter of the jobs that both match; raise InvalidFilter if it is too long."""
        both = Filter(_once((*self.terms, *other.terms)))
        if len(both.terms) > MAX_TERMS or len(str(both)) > MAX_TEXT:
            raise InvalidFilter("both filters together are too long; leave some terms out")
        return both

    def at(self, now: datetime, *, limit: int | None = 100) -> JobFilter:
        """Return the store's form; `older` and `newer` are counted back from `now`, aware.

        Parameters:
            now: the moment at which it is asked.
            limit: the maximum number of jobs.
        """
        terms = tuple(each.at(now) for each in self.terms)
        return JobFilter(terms=terms or None, limit=limit)

    def without(self, qualifier: str, name: str = "") -> "Filter":
        """Return it without the terms of a qualifier; of `arg`, those of the argument `name`."""
        said = (qualifier, name)
        return Filter(tuple(each for each in self.terms if (each.qualifier, each.name) != said))

    def having(self, qualifier: str, *texts: str) -> "Filter":
        """Return it with exactly these values of a qualifier, instead of those it has.

        Raises:
            InvalidFilter: the qualifier is unknown, or cannot have one of the values.
        """
        values = ",".join(map(in_quotes, texts))
        return self.without(qualifier) + parse(f"{qualifier}:{values}")


def parse(text: str) -> Filter:
    """Read a filter.

    Raises:
        InvalidFilter: the text is no filter; `position` is where, counted from 0, and the message
            names what was expected there.
    """
    if not isinstance(text, str):
        raise InvalidFilter(f"the filter is {text!r:.80}; give a text, such as 'state:dead'")
    if len(text) > MAX_TEXT:
        raise InvalidFilter(
            f"the filter has {len(text):,} characters; give at most {MAX_TEXT:,}", MAX_TEXT
        )
    _refuse_no_text(text)
    return Filter(_once(_Reader(text).terms()))


def _once(terms: Iterable[SaidTerm]) -> tuple[SaidTerm, ...]:
    """Return terms without repetitions; compared by text, because for Python 1 is True."""
    return tuple({str(each): each for each in terms}.values())


def _refuse_no_text(text: str) -> None:
    for position, each in enumerate(text):
        if each == "\x00" or "\ud800" <= each <= "\udfff":
            raise _refusal("there is a NUL or half a character here, which no job has", position)


class _Reader:
    """A text, and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def terms(self) -> Iterator[SaidTerm]:
        """Yield the terms."""
        number = 0
        while self._skip_spaces():
            number += 1
            if number > MAX_TERMS:
                raise _refusal(f"there are more than {MAX_TERMS} terms; leave some out", self.at)
            yield self._term()

    def _term(self) -> SaidTerm:
        start = self.at
        negated = self._take("-")
        named = self.at
        head = self._head()
        if not self._take(":"):
            return self._bare(head, start, negated)
        qualifier, name = self._qualifier(head, named)
        if negated and qualifier.one:
            other = {"older": "newer", "newer": "older", "before": "after", "after": "before"}
            raise _refusal(f"-{qualifier.name} is said as {other[qualifier.name]}", start)
        return SaidTerm(qualifier.name, tuple(self._values(qualifier)), negated, name)

    def _head(self) -> str:
        """Read the part before a colon; the name of an argument may be quoted."""
        start = self.at
        while self._here() not in ("", ":", '"', ",") and not self._here().isspace():
            self.at += 1
        head = self.text[start : self.at]
        if head == "arg." and self._here() == '"':
            return head + self._quoted()
        return head

    def _bare(self, head: str, start: int, negated: bool) -> SaidTerm:
        if _IDS.fullmatch(head):
            self.at -= len(head)
            return SaidTerm("id", tuple(self._values(QUALIFIERS["id"])), negated)
        if head in QUALIFIERS:
            raise _refusal(f"{head!r} has no value; write {_example(QUALIFIERS[head])}", self.at)
        if not head:
            raise _refusal(
                f"expected a qualifier, such as state: or task:, not {self._here()!r}", self.at
            )
        raise _refusal(
            f"{head!r} is no term: say what it is, such as task:{quoted(head)} or"
            f" key:{quoted(head)}",
            start,
        )

    def _qualifier(self, head: str, start: int) -> tuple[Qualifier, str]:
        name = ""
        if head.startswith("arg."):
            head, name = "arg", head[4:]
        if head not in QUALIFIERS:
            known = ", ".join(QUALIFIERS)
            raise _refusal(
                f"there is no qualifier {head!r:.60}{did_you_mean(head, QUALIFIERS)}; there are"
                f" {known}",
                start,
            )
        if head == "arg" and not name:
            raise _refusal("say which argument, such as arg.order_id:7", start)
        return QUALIFIERS[head], name

    def _values(self, qualifier: Qualifier) -> Iterator[Written]:
        number = 0
        while True:
            number += 1
            if number > (1 if qualifier.one else MAX_VALUES):
                most = "one value" if qualifier.one else f"at most {MAX_VALUES} values"
                raise _refusal(f"{qualifier.name} takes {most}", self.at)
            start = self.at
            yield self._read(qualifier, self._word(qualifier), start)
            if not self._take(","):
                break
        if self._here() and not self._here().isspace():
            raise _refusal(
                "a quote stands within a word; put all of the value into quotes", self.at
            )

    def _word(self, qualifier: Qualifier) -> Word:
        if self._here() == '"':
            return Word(self._quoted(), quoted=True)
        start = self.at
        while self._here() and self._here() not in _ENDS and not self._here().isspace():
            self.at += 1
        if self.at == start:
            raise _refusal(f"expected a value, such as {_example(qualifier)}", start)
        return Word(self.text[start : self.at])

    def _quoted(self) -> str:
        """Read a quoted value, in which a backslash escapes quotes and backslashes."""
        start = self.at
        self.at += 1
        found = []
        while self._here() != '"':
            if self._here() == "\\" and self.text[self.at + 1 : self.at + 2] in ("\\", '"'):
                self.at += 1
            if not self._here():
                raise _refusal('these quotes do not end; write "…"', start)
            found.append(self._here())
            self.at += 1
        self.at += 1
        return "".join(found)

    def _read(self, qualifier: Qualifier, word: Word, start: int) -> Written:
        try:
            return qualifier.read(word)
        except UnfitValue as unfit:
            raise _refusal(str(unfit), start) from None

    def _skip_spaces(self) -> bool:
        while self._here().isspace():
            self.at += 1
        return bool(self._here())

    def _take(self, character: str) -> bool:
        found = self._here() == character
        self.at += found
        return found

    def _here(self) -> str:
        return self.text[self.at : self.at + 1]


def _refusal(why: str, position: int) -> InvalidFilter:
    return InvalidFilter(f"the filter, at character {position + 1}: {why}", position)


def _example(qualifier: Qualifier) -> str:
    name = "arg.order_id" if qualifier.aspect is Aspect.ARG else qualifier.name
    return f"{name}:{qualifier.example}"


def _name(name: str) -> str:
    plain = name.isprintable() and not any(each in name for each in ' ":,')
    return name if plain else in_quotes(name)


def _resolved(qualifier: str, value: Written, now: datetime) -> Exactly | Like | Between:
    if not isinstance(value, Age):
        return value
    moment = EARLIEST if value.ago >= now - EARLIEST else now - value.ago
    return Between(None, moment) if qualifier == "older" else Between(moment, None)


def joined(first: Filter | str | None, second: Filter | str | None) -> Filter:
    """Return the filter of the jobs that both match; texts are parsed."""
    return _read(first) + _read(second)


def _read(given: Filter | str | None) -> Filter:
    return parse(given) if isinstance(given, str) else given or Filter()
