"""Suggests completions for a filter that is being typed: qualifiers, states, and known names.

Pure: existing names are parameters. It never raises, whatever the text is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from mutirao.model.filters.conditions import Aspect
from mutirao.model.filters.filter import MAX_TEXT
from mutirao.model.filters.qualifiers import QUALIFIERS, quoted
from mutirao.model.jobs.states import JobState

MOST_SUGGESTIONS = 20
MOST_NAMES = 1_000  # of one kind, that are searched
MOST_TYPED = 50  # characters that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The existing names, for suggestions."""

    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that replaces `start` to `end` of the typed text, and what it means."""

    text: str
    start: int
    end: int
    help: str = ""


NOTHING_KNOWN = Known()


def suggest(
    text: str, at: int | None = None, known: Known = NOTHING_KNOWN
) -> tuple[Suggestion, ...]:
    """Return suggestions for the place of the cursor, the likeliest first.

    Parameters:
        text: the typed text.
        at: the place of the cursor, in characters; None: at the end.
        known: the existing names.
    """
    text = text[:MAX_TEXT]
    end = len(text) if at is None else min(max(at, 0), len(text))
    start = _start_of_term(text, end)
    typed = text[start:end]
    sign, word = ("-", typed[1:]) if typed.startswith("-") else ("", typed)
    start += len(sign)
    if ":" not in word:
        return tuple(islice(_qualifiers(word, start, end), MOST_SUGGESTIONS))
    qualifier, _, values = word.partition(":")
    begun = values.rpartition(",")[2]
    return tuple(islice(_values(qualifier, begun, end, known), MOST_SUGGESTIONS))


def _start_of_term(text: str, end: int) -> int:
    """Return where the term begins that the cursor is in; spaces in quotes do not end one."""
    start, inside, position = 0, False, 0
    while position < end:
        if inside and text[position] == "\\":
            position += 1
        elif text[position] == '"':
            inside = not inside
        elif text[position].isspace() and not inside:
            start = position + 1
        position += 1
    return min(start, end)


def _qualifiers(word: str, start: int, end: int) -> Iterator[Suggestion]:
    for name in _likely(word, QUALIFIERS):
        qualifier = QUALIFIERS[name]
        after = "." if qualifier.aspect is Aspect.ARG else ":"
        yield Suggestion(f"{name}{after}", start, end, qualifier.help)


def _values(qualifier: str, begun: str, end: int, known: Known) -> Iterator[Suggestion]:
    found = QUALIFIERS.get(qualifier.partition(".")[0])
    if found is None:
        return
    names = _names(found.aspect, known)
    for name in _likely(begun.removeprefix('"'), names):
        yield Suggestion(quoted(name), end - len(begun), end)
    if not begun and not names:
        yield Suggestion(found.example, end, end, f"for example: {found.help}")


def _names(aspect: Aspect, known: Known) -> tuple[str, ...]:
    names: dict[Aspect, tuple[str, ...]] = {
        Aspect.STATE: tuple(map(str, JobState)),
        Aspect.QUEUE: known.queues,
        Aspect.TASK: known.tasks,
        Aspect.TAG: known.tags,
        Aspect.ERROR: known.errors,
    }
    return names.get(aspect, ())[:MOST_NAMES]


def _likely(typed: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names that begin with the typed text, then those that contain it or are like it."""
    typed, names = typed[:MOST_TYPED].lower(), tuple(names)
    first = [name for name in names if name.lower().startswith(typed)]
    within = [name for name in names if typed in name.lower()]
    near = get_close_matches(typed, names, n=3) if typed else []
    yield from dict.fromkeys((*first, *within, *near))
