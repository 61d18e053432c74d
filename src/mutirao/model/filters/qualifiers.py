"""The qualifiers of the filter language, and how their values are parsed and written.

Every parser raises `UnfitValue`, which knows nothing of positions; `filter` adds them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from math import isfinite
from types import MappingProxyType

from mutirao.model.filters.conditions import Aspect, Between, Exactly, Like, Scalar, Value
from mutirao.model.jobs.states import JobState
from mutirao.model.lengths import is_length, length

MOST_STARS = 5  # in one value: databases try all ways to place them
MOST_NUMBER = 2**63 - 2  # so that databases can hold the next number, too
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = MappingProxyType({"true": True, "false": False, "null": None})
_COMPARED = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Names of states in other systems.
_ELSEWHERE = MappingProxyType(
    {"failed": "dead", "discarded": "dead", "completed": "succeeded", "done": "succeeded",
     "available": "ready", "pending": "ready", "retryable": "scheduled", "executing": "running"}
)  # fmt: skip
_UNITS = ((604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "m"))


class UnfitValue(ValueError):
    """A value that a qualifier cannot have; the message says what it can have."""


@dataclass(frozen=True, slots=True)
class Age:
    """A length of time before the moment at which the filter is asked."""

    ago: timedelta


@dataclass(frozen=True, slots=True)
class Word:
    """A value as it was written: its text, and whether it was quoted."""

    text: str
    quoted: bool = False


Written = Value | Age
Read = Callable[[Word], Written]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A word before a colon: its meaning in a few words, and an example of a value.

    `one`: it takes one value only, and cannot be negated.
    """

    name: str
    aspect: Aspect
    read: Read
    help: str
    example: str
    one: bool = False


def _text(word: Word) -> Written:
    """Read a name; unquoted, `*` matches any text."""
    if word.quoted or "*" not in word.text:
        return Exactly(word.text)
    pattern = re.sub(r"\*+", "*", word.text)
    if pattern.count("*") > MOST_STARS:
        raise UnfitValue(f"{word.text!r} has more than {MOST_STARS} stars; write fewer")
    return Like(pattern)


def _state(word: Word) -> Written:
    try:
        return Exactly(str(JobState(word.text)))
    except ValueError:
        known = ", ".join(JobState)
        raise UnfitValue(
            f"no job is ever {word.text!r:.60}{_state_meant(word.text)}; the states are {known}"
        ) from None


def _state_meant(text: str) -> str:
    elsewhere = _ELSEWHERE.get(text.lower())
    return f" (did you mean {elsewhere!r}?)" if elsewhere else did_you_mean(text, JobState)


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None or abs(int(text)) > MOST_NUMBER:
        raise UnfitValue(
            f"{text!r} is no whole number; write 7, 7..90, >3 or <=3, up to {MOST_NUMBER}"
        )
    return int(text)


def _number(word: Word) -> Written:
    """Read a whole number, a range of them, or a comparison."""
    compared = _COMPARED.fullmatch(word.text)
    if compared is not None:
        return _compared(compared[1], _integer(compared[2]))
    if ".." not in word.text:
        return Exactly(_integer(word.text))
    low, _, high = word.text.partition("..")
    if not low and not high:
        raise UnfitValue("'..' has no number; write 7..90, 7.. or ..90")
    return _range(_integer(low) if low else None, _integer(high) if high else None)


def _compared(sign: str, number: int) -> Written:
    if sign.startswith(">"):
        return Between(number if sign == ">=" else number + 1, None)
    return Between(None, number if sign == "<=" else number - 1)


def _range(low: int | None, high: int | None) -> Written:
    if low is not None and high is not None and low > high:
        raise UnfitValue(f"{low}..{high} holds no number; write the smaller one first")
    return Exactly(low) if low == high else Between(low, high)


def _scalar(word: Word) -> Written:
    """Read a text, or another scalar of JSON; a quoted value is a text."""
    if word.quoted:
        return Exactly(word.text)
    if word.text in _WORDS:
        return Exactly(_WORDS[word.text])
    if "*" in word.text:
        raise UnfitValue(
            f"{word.text!r}: no pattern fits an argument; quote it if the star is meant"
        )
    if _NUMBER.fullmatch(word.text) is None:
        return Exactly(word.text)
    found = _json_number(word.text)
    if found is None:
        raise UnfitValue(f"{word.text!r} is too large a number; quote it if it is a text")
    return Exactly(found)


def _json_number(text: str) -> Scalar:
    if _INTEGER.fullmatch(text):
        whole = int(text)
        return whole if abs(whole) <= MOST_NUMBER else None
    number = float(text)
    return number if isfinite(number) else None


def _age(word: Word) -> Written:
    if not is_length(word.text):
        raise UnfitValue(f"{word.text!r} is no length of time; write 90s, 15m, 2h or 7d")
    try:
        return Age(length(word.text))
    except ValueError as unfit:
        raise UnfitValue(str(unfit)) from None


def _moment(word: Word) -> datetime:
    try:
        found = datetime.fromisoformat(word.text)
        if _DAY.fullmatch(word.text):
            found = found.replace(tzinfo=UTC)
        moment = None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnfitValue(
            f"{word.text!r} is no moment; write 2026-11-21T13:44:28Z, or 2026-11-21"
        ) from None
    if moment is None:
        raise UnfitValue(f"{word.text!r} has no time zone; add Z for UTC, or an offset like -03:00")
    if moment < EARLIEST:
        raise UnfitValue(f"{word.text!r} is before 1970; write a later moment")
    return moment


def _before(word: Word) -> Written:
    return Between(None, _moment(word))


def _after(word: Word) -> Written:
    return Between(_moment(word), None)


def _all() -> tuple[Qualifier, ...]:
    return (
        Qualifier("state", Aspect.STATE, _state, "the state", "dead"),
        Qualifier("task", Aspect.TASK, _text, "the task's name", "send_*"),
        Qualifier("queue", Aspect.QUEUE, _text, "the queue", "mail"),
        Qualifier("error", Aspect.ERROR, _text, "the class of the last error", "Timeout"),
        Qualifier("message", Aspect.MESSAGE, _text, "how that error's text begins", "*refused*"),
        Qualifier("tag", Aspect.TAG, _text, "one of the tags", "nightly"),
        Qualifier("key", Aspect.KEY, _text, "the unique key", "invoice-7"),
        Qualifier("tenant", Aspect.TENANT, _text, "whose job it is", "acme"),
        Qualifier("group", Aspect.GROUP, _text, "the group of the tenant", "eu"),
        Qualifier("arg", Aspect.ARG, _scalar, "an argument: arg.NAME", "7"),
        Qualifier("id", Aspect.ID, _number, "the job's id", "7..90"),
        Qualifier("graph", Aspect.GRAPH, _number, "the graph's id", "7"),
        Qualifier("worker", Aspect.WORKER, _number, "the id of the worker that has it", "3"),
        Qualifier("priority", Aspect.PRIORITY, _number, "the priority", "<0"),
        Qualifier("attempt", Aspect.ATTEMPT, _number, "how often it was attempted", ">3"),
        Qualifier("older", Aspect.ENQUEUED, _age, "enqueued longer ago than this", "2h", True),
        Qualifier("newer", Aspect.ENQUEUED, _age, "enqueued since then", "15m", True),
        Qualifier("before", Aspect.ENQUEUED, _before, "enqueued before", "2026-11-21", True),
        Qualifier("after", Aspect.ENQUEUED, _after, "enqueued at or after", "2026-11-21", True),
    )


QUALIFIERS = MappingProxyType({each.name: each for each in _all()})


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return the known name that is most like a text, as part of a message; or nothing."""
    near = get_close_matches(text[:40], [str(each) for each in known], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


# How values are written: the `read` function of each parses them again.


def written(value: Written) -> str:
    """Return the text of a value, quoted if necessary."""
    match value:
        case Exactly(str() as text):
            return quoted(text)
        case Exactly(None):
            return "null"
        case Exactly(bool() as fact):
            return str(fact).lower()
        case Exactly(number):
            return repr(number)
        case Like(pattern):
            return pattern
        case Age(ago):
            return _spelled(ago)
        case Between(low, high):
            return _bounds(low, high)


def quoted(text: str) -> str:
    """Return a text as a value that is this text: in quotes, unless it is a plain word."""
    if text and text.isprintable() and not any(each in text for each in ' ",*'):
        return text
    return in_quotes(text)


def in_quotes(text: str) -> str:
    """Return a text in quotes, in which a backslash escapes quotes and backslashes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def scalar_written(value: Written) -> str:
    """Return the text of an argument's value: a text that looks like something else is quoted."""
    if isinstance(value, Exactly) and isinstance(value.value, str):
        text = value.value
        if text in _WORDS or _NUMBER.fullmatch(text):
            return in_quotes(text)
    return written(value)


def _spelled(ago: timedelta) -> str:
    micros = ago // timedelta(microseconds=1)
    for seconds, unit in _UNITS:
        if micros and micros % (seconds * 1_000_000) == 0:
            return f"{micros // (seconds * 1_000_000)}{unit}"
    whole, part = divmod(micros, 1_000_000)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".") + "s"


def _bounds(low: object, high: object) -> str:
    for moment in (low, high):
        if isinstance(moment, datetime):
            return moment.isoformat().replace("+00:00", "Z")
    if isinstance(low, int) and isinstance(high, int):
        return f"{low}..{high}"
    if isinstance(low, int):
        return f">{low - 1}" if low > -MOST_NUMBER else f">={low}"
    if isinstance(high, int):
        return f"<{high + 1}" if high < MOST_NUMBER else f"<={high}"
    return ".."
