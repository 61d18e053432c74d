"""Supersede: the rules by which a newer job of a key makes a waiting one redundant.

A rule is a table over the kinds of two jobs, and a pure function of both. The stores call `decide`
in the transaction that enqueues the newer job, and do what it returns.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from mutirao.errors import InvalidJob, InvalidTask
from mutirao.model.row_json import UnreadableRow, read, read_object

SUPERSEDED = "Superseded"  # the error_type of a job that a newer one made redundant

Arguments = dict[str, Any]
Merge = Callable[[Arguments, Arguments], Arguments]
Word = Literal["keep", "newer", "merge", "neither"]


class Redundancy(StrEnum):
    """What remains of two jobs of a key, if no attempt of the older one has started."""

    KEEP = "keep"  # both, the newer one after the older one
    NEWER = "newer"  # the newer one, instead of the older one
    MERGE = "merge"  # one job of the older one's kind, with the newer one's content
    NEITHER = "neither"  # nothing


# W3C ActivityStreams: what a server no longer has to send, about one object to one inbox.
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
    """A rule for the jobs of a key: a table over the value of one of their arguments.

    Pairs that are not in the table are both kept, in order. Jobs of different tasks are kept, too.

    Parameters:
        by: the parameter of the task that contains a job's kind, a text.
        rules: what remains of (older kind, newer kind).
        merge: a function that returns the arguments of a merged job from the older job's and the
            newer job's, as decoded from JSON. Unless given: the newer job's, with the older job's
            kind.
        drop_repeated: drop a job that is equal to the last successful job of the key, if no attempt
            of the key's jobs has started since.

    Raises:
        InvalidTask: a parameter has the wrong type, or a rule is unknown.
    """

    by: str
    rules: Mapping[tuple[str, str], Redundancy | Word]
    merge: Merge | None = None
    drop_repeated: bool = False

    def __post_init__(self) -> None:
        given: tuple[object, object] = (self.by, self.rules)
        if not isinstance(given[0], str) or not isinstance(given[1], Mapping):
            raise InvalidTask(
                f"supersede was given {self.by!r} and {self.rules!r}; give the name of a parameter"
                " and a dict of rules"
            )
        if self.merge is not None and not callable(self.merge):
            raise InvalidTask(f"merge is {self.merge!r}; give a function of two dicts of arguments")
        if not isinstance(self.drop_repeated, bool):
            raise InvalidTask(f"drop_repeated is {self.drop_repeated!r}; give True or False")
        checked = {pair: _redundancy(pair, word) for pair, word in self.rules.items()}
        object.__setattr__(self, "rules", MappingProxyType(checked))

    @classmethod
    def activities(
        cls, by: str = "type", merge: Merge | None = None, *, drop_repeated: bool = False
    ) -> Self:
        """Return the rule for ActivityStreams, whose kinds are Create, Update, Delete and so on."""
        return cls(by, ACTIVITIES, merge, drop_repeated)

    def judge(self, older: Arguments, newer: Arguments) -> Redundancy:
        """Return what remains of two jobs with these arguments."""
        before, now = older.get(self.by), newer.get(self.by)
        if not isinstance(before, str) or not isinstance(now, str):
            return Redundancy.KEEP
        return Redundancy(self.rules.get((before, now), Redundancy.KEEP))

    def merged(self, older: Arguments, newer: Arguments) -> Arguments:
        """Return the arguments of the job that remains after a merge.

        Raises:
            InvalidJob: `merge` raised, or returned something that is not a dict of arguments.
        """
        if self.merge is None:
            return {**newer, self.by: older[self.by]}
        try:
            made = self.merge(dict(older), dict(newer))
        except InvalidJob:
            raise
        except Exception as error:
            raise InvalidJob(f"merge raised {type(error).__name__}: {error}") from error
        if not isinstance(made, dict):
            raise InvalidJob(
                f"merge made {made!r} of two jobs' arguments; it must return a dict of arguments"
            )
        return made


class Older(NamedTuple):
    """The last live job of a key. `untouched`: it waits, and no attempt of it has ever started."""

    id: int
    task: str
    args: str
    untouched: bool


class Done(NamedTuple):
    """The last successful job of a key. Since then no attempt of the key's jobs has started."""

    id: int
    task: str
    args: str


class Decision(NamedTuple):
    """The decision on a newer job: `how` it was enqueued, and its arguments if it was merged.

    `done` is the id of the job that is still the last successful one of the key.
    """

    how: Literal["inserted", "follows", "replaced", "merged", "superseded", "repeated"]
    args: str | None = None
    done: int | None = None


_LEFT = {
    Redundancy.KEEP: Decision("follows"),
    Redundancy.NEWER: Decision("replaced"),
    Redundancy.NEITHER: Decision("superseded"),
}


def decide(
    rule: Supersede, task: str, args: str, older: Older | None, done: Done | None = None
) -> Decision:
    """Decide about a newer job of `task`, where `older` is the last live one of its key.

    `done` is called only if the rule drops repeated jobs.
    """
    if older is None:
        decision = Decision("inserted")
    elif not older.untouched or older.task != task:
        return _LEFT[Redundancy.KEEP]
    else:
        decision = _between(rule, older.args, args)
    if done is None or decision.how == "follows":
        return decision
    if decision.how != "superseded" and _repeats(done, task, decision.args or args):
        return Decision("repeated" if older is None else "superseded", done=done.id)
    return decision._replace(done=done.id)


def cancelled_because(how: str, newer: int) -> str:
    """Return the reason that the history gives for the older job."""
    return f"merged into job {newer}" if how == "merged" else f"superseded by job {newer}"


def dropped_because(older: int) -> str:
    """Return the reason that the history gives for a newer job cancelled with the older one."""
    return f"superseded together with job {older}"


def repeated_because(done: int) -> str:
    """Return the reason that the history gives for a job that SQL enqueued, and that is dropped."""
    return f"repeats job {done}, which succeeded"


def _between(rule: Supersede, older: str, newer: str) -> Decision:
    now = _arguments(newer)
    try:
        before = read_object(older)
    except UnreadableRow:  # its own attempt reports that
        return _LEFT[Redundancy.KEEP]
    left = rule.judge(before, now)
    if left is Redundancy.MERGE:
        return Decision("merged", _as_json(rule.merged(before, now)))
    return _LEFT[left]


def _arguments(newer: str) -> dict[str, Any]:
    try:
        return read_object(newer, "what its arguments say")
    except UnreadableRow as unfit:
        raise InvalidJob(str(unfit)) from unfit


def _repeats(done: Done, task: str, args: str) -> bool:
    """Return whether the arguments are equal; as text, since True is 1 in Python."""
    wanted = _sorted(args)
    return done.task == task and wanted is not None and _sorted(done.args) == wanted


def _sorted(args: str) -> str | None:
    """Return arguments as text that is equal for equal ones; None: they cannot be read."""
    try:
        return json.dumps(read(args), sort_keys=True)
    except (UnreadableRow, RecursionError):
        return None


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
