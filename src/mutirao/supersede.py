"""Supersede: which waiting jobs of a key a newer one makes redundant.

A rule is a table over the kinds of two jobs, and a pure function of both. The stores ask `decide`
in the transaction that enqueues the newer one, and do what it says.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from mutirao.errors import InvalidJob, InvalidTask

SUPERSEDED = "Superseded"  # the error_type of a job that a newer one made redundant

Arguments = dict[str, Any]
Merge = Callable[[Arguments, Arguments], Arguments]
Word = Literal["keep", "newer", "merge", "neither"]


class Redundancy(StrEnum):
    """What is left of two jobs of a key, of which nobody has tried the older one yet."""

    KEEP = "keep"  # both, the newer one after the older one
    NEWER = "newer"  # the newer one, in the older one's place
    MERGE = "merge"  # one that is what the older one was, with what the newer one says
    NEITHER = "neither"  # nothing


# Of W3C ActivityStreams: what a server need not send any more, about one object to one inbox.
ACTIVITIES: Mapping[tuple[str, str], Redundancy] = MappingProxyType(
    {
        ("Create", "Update"): Redundancy.MERGE,
        ("Create", "Delete"): Redundancy.NEITHER,
        ("Update", "Update"): Redundancy.NEWER,
        ("Update", "Delete"): Redundancy.NEWER,
        ("Add", "Remove"): Redundancy.NEITHER,
        ("Remove", "Add"): Redundancy.NEITHER,
        ("Follow", "Undo"): Redundancy.NEITHER,
    }
)


@dataclass(frozen=True, slots=True)
class Supersede:
    """A rule for the jobs of a key: a table over what one of their arguments says.

    Pairs that the table does not name are both kept, in order; so are jobs of different tasks.

    Parameters:
        by: the parameter of the task that holds a job's kind, a text.
        rules: what is left of (older kind, newer kind).
        merge: makes the arguments of a merged job from the older one's and the newer one's, as
            JSON has them. Unless given, those of the newer one with the older one's kind.
    """

    by: str
    rules: Mapping[tuple[str, str], Redundancy | Word]
    merge: Merge | None = None

    def __post_init__(self) -> None:
        given: tuple[object, object] = (self.by, self.rules)
        if not isinstance(given[0], str) or not isinstance(given[1], Mapping):
            raise InvalidTask(
                f"supersede was given {self.by!r} and {self.rules!r}; give the name of a parameter"
                " and a dict of rules"
            )
        if self.merge is not None and not callable(self.merge):
            raise InvalidTask(f"merge is {self.merge!r}; give a function of two dicts of arguments")
        checked = {pair: _redundancy(pair, word) for pair, word in self.rules.items()}
        object.__setattr__(self, "rules", MappingProxyType(checked))

    @classmethod
    def activities(cls, by: str = "type", merge: Merge | None = None) -> Self:
        """Return the rule for ActivityStreams, whose kinds are Create, Update, Delete and so on."""
        return cls(by, ACTIVITIES, merge)

    def judge(self, older: Arguments, newer: Arguments) -> Redundancy:
        """Return what is left of two jobs with these arguments."""
        before, now = older.get(self.by), newer.get(self.by)
        if not isinstance(before, str) or not isinstance(now, str):
            return Redundancy.KEEP
        return Redundancy(self.rules.get((before, now), Redundancy.KEEP))

    def merged(self, older: Arguments, newer: Arguments) -> Arguments:
        """Return the arguments of the one that is left where they are merged.

        Raises:
            InvalidJob: `merge` made something else than arguments.
        """
        if self.merge is None:
            return {**newer, self.by: older[self.by]}
        made = self.merge(dict(older), dict(newer))
        if not isinstance(made, dict):
            raise InvalidJob(
                f"merge made {made!r} of two jobs' arguments; it must return a dict of arguments"
            )
        return made


class Older(NamedTuple):
    """The last live job of a key. `untouched`: it waits, and nobody has ever tried it."""

    id: int
    task: str
    args: str
    untouched: bool


class Decision(NamedTuple):
    """What becomes of a newer job: how it came to, and its arguments if it was merged."""

    how: Literal["inserted", "follows", "replaced", "merged", "superseded"]
    args: str | None = None


_LEFT = {
    Redundancy.KEEP: Decision("follows"),
    Redundancy.NEWER: Decision("replaced"),
    Redundancy.NEITHER: Decision("superseded"),
}


def decide(rule: Supersede, task: str, args: str, older: Older | None) -> Decision:
    """Decide about a newer job of `task`, where `older` is the last live one of its key."""
    if older is None:
        return Decision("inserted")
    if not older.untouched or older.task != task:
        return _LEFT[Redundancy.KEEP]
    before, now = json.loads(older.args), json.loads(args)
    left = rule.judge(before, now)
    if left is Redundancy.MERGE:
        return Decision("merged", _as_json(rule.merged(before, now)))
    return _LEFT[left]


def cancelled_because(how: str, newer: int) -> str:
    """Return what history says of the older job."""
    return f"merged into job {newer}" if how == "merged" else f"superseded by job {newer}"


def dropped_because(older: int) -> str:
    """Return what history says of a newer job that went together with the older one."""
    return f"superseded together with job {older}"


def _as_json(arguments: Arguments) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as unfit:
        raise InvalidJob(f"merge made arguments that JSON cannot hold: {unfit}") from unfit


def _redundancy(pair: object, word: str) -> Redundancy:
    named = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(k, str) for k in pair)
    if not named:
        raise InvalidTask(f"a supersede rule is for {pair!r}; give (older kind, newer kind)")
    if word not in list(Redundancy):
        known = ", ".join(Redundancy)
        raise InvalidTask(f"the supersede rule for {pair} is {word!r}; give one of {known}")
    return Redundancy(word)
