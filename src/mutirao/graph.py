"""Graphs of jobs as values: chains, groups and free dependencies. Nothing here knows a store.

`planning.plan` checks what was composed and numbers it; a store writes that, and keeps the promises
of `mutirao.ports.Intake.enqueue_graph`.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mutirao.errors import InvalidGraph
from mutirao.job import NewJob

MAX_NAME = 200  # characters, of a graph and of a stage


class OnDead(StrEnum):
    """What becomes of a graph when one of its steps dies or is cancelled."""

    STOP = "stop"  # later steps stay blocked; redriving the dead one goes on
    CONTINUE = "continue"  # it counts as finished, without a result
    COMPENSATE = "compensate"  # nothing more is started, and what has succeeded is undone


# None of these is a dataclass: JSON would carry those, and take a step for an argument.
class Reference:
    """Stands for the result of a step, or for several as a list, until the job runs.

    `of` is a step, or a tuple of such trees; None is what comes before in a chain, or, in a
    compensating job, the step that it undoes.
    """

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of


PREVIOUS: Any = Reference(None)
"""In a chain: the result of what comes before; of a group, the list of its members' results."""


class Step:
    """A job in its place in a graph; made by `step` or `Graph.add`."""

    __slots__ = ("compensate", "job", "on_dead", "stage")

    def __init__(
        self,
        job: NewJob,
        stage: str | None = None,
        on_dead: OnDead | None = None,
        compensate: NewJob | None = None,
    ) -> None:
        self.job, self.stage, self.on_dead, self.compensate = job, stage, on_dead, compensate

    @property
    def result(self) -> Any:
        """Stands for what this step returns, as an argument of a later one."""
        return Reference(self)


class Group:
    """Parts that do not wait for each other; made by `group`."""

    __slots__ = ("parts",)

    def __init__(self, parts: "tuple[Part, ...]") -> None:
        self.parts = parts

    @property
    def result(self) -> Any:
        """Stands for the list of the members' results, in order."""
        return Reference(tree_of(self))


class Chain:
    """Parts that run one after the other; made by `chain`."""

    __slots__ = ("parts",)

    def __init__(self, parts: "tuple[Part, ...]") -> None:
        self.parts = parts

    @property
    def result(self) -> Any:
        """Stands for the result of the last part."""
        return Reference(tree_of(self))


Part = Step | Group | Chain


class Graph:
    """Steps with free dependencies.

    Parameters:
        name: for people; up to 200 characters.
        on_dead: what happens when a step dies or is cancelled, unless the step says otherwise.
    """

    def __init__(self, name: str | None = None, *, on_dead: OnDead | str = OnDead.STOP) -> None:
        self.name, self.on_dead = _checked_name("name", name), _on_dead(on_dead)
        self._before: dict[Part, list[Part]] = {}

    def add(
        self, part: "NewJob | Part", after: "Part | Iterable[Part]" = (), **options: Any
    ) -> Any:
        """Add a job, step, chain or group that waits for those in `after`; return it as a part.

        `options` are those of `step`, where a job is given.

        Raises:
            InvalidGraph: it was added before, or one of `after` was not.
        """
        added = step(part, **options) if isinstance(part, NewJob) else as_part(part)
        if added in self._before:
            raise InvalidGraph("this part is in the graph already; add each once")
        self._before[added] = []
        self.order(after, added)
        return added

    def order(self, before: "Part | Iterable[Part]", then: "Part") -> None:
        """Let `then` wait for `before`; both were added. Raises InvalidGraph if they were not."""
        earlier = [before] if isinstance(before, Part) else list(before)
        for each in (*earlier, then):
            if each not in self._before:
                raise InvalidGraph(
                    f"{shown(each)} is no part of this graph; add it first, and name what `add`"
                    " returned"
                )
        self._before[then] += earlier

    def in_order(self) -> "Iterator[tuple[Part, list[Part]]]":
        """Yield the parts with their predecessors, these first. Raises InvalidGraph for a cycle."""
        try:
            for part in TopologicalSorter(self._before).static_order():
                yield part, self._before[part]
        except CycleError as cycle:
            names = " → ".join(shown(each) for each in cycle.args[1])
            raise InvalidGraph(
                f"these steps wait for each other: {names}; take one of the dependencies out"
            ) from None


def step(
    job: NewJob,
    *,
    stage: str | None = None,
    on_dead: OnDead | str | None = None,
    compensate: NewJob | None = None,
) -> Step:
    """Return a job with what the graph is to know of it.

    Parameters:
        stage: what people call this part of the pipeline; the task's name unless given.
        on_dead: "stop", "continue" or "compensate", instead of the graph's.
        compensate: the job that undoes this step, should the graph be compensated; `PREVIOUS`
            stands for this step's result in its arguments.

    Raises:
        InvalidGraph: the job has a unique key, or an option is unknown.
    """
    for each in (job,) if compensate is None else (job, compensate):
        if not isinstance(each, NewJob):
            raise InvalidGraph(f"a step is {each!r}; give a job, as task.job(…) makes it")
        if each.unique is not None:
            raise InvalidGraph(
                f"a step of task {each.task!r} has the key {each.key!r}, so another job might"
                " stand for it or take its place; leave the key out"
            )
    chosen = None if on_dead is None else _on_dead(on_dead)
    return Step(job, _checked_name("stage", stage), chosen, compensate)


def chain(*parts: "NewJob | Part") -> Chain:
    """Return parts that run one after the other, each once the one before has succeeded."""
    return Chain(_parts("a chain", parts))


def group(*parts: "NewJob | Part | Iterable[NewJob | Part]") -> Group:
    """Return parts that run at the same time; given one by one, or as one iterable."""
    if len(parts) == 1 and isinstance(parts[0], Iterable):
        parts = tuple(parts[0])
    return Group(_parts("a group", parts))


def tree_of(part: Part) -> Any:
    """Return what stands for the results of a part: a step, or a tuple."""
    if isinstance(part, Step):
        return part
    if isinstance(part, Chain):
        return tree_of(part.parts[-1])
    return tuple(tree_of(each) for each in part.parts)


def shown(part: object) -> str:
    """Return how messages call a part."""
    if isinstance(part, Step):
        return f"a step of {part.job.task!r}"
    return f"a {type(part).__name__.lower()}" if isinstance(part, Part) else repr(part)


def _parts(what: str, given: Iterable[Any]) -> tuple[Part, ...]:
    parts = tuple(step(each) if isinstance(each, NewJob) else as_part(each) for each in given)
    if not parts:
        raise InvalidGraph(f"{what} is empty; give it at least one job")
    return parts


def as_part(given: object) -> Part:
    """Return what was given as a part. Raises InvalidGraph if it is none."""
    if isinstance(given, Part):
        return given
    raise InvalidGraph(
        f"a part of a graph is {given!r}; give jobs (task.job(…)), steps, chains or groups"
    )


def _on_dead(given: OnDead | str) -> OnDead:
    try:
        return OnDead(given)
    except ValueError:
        raise InvalidGraph(f"on_dead is {given!r}; give one of {', '.join(OnDead)}") from None


def _checked_name(what: str, name: str | None) -> str | None:
    if name is not None and not 1 <= len(name) <= MAX_NAME:
        raise InvalidGraph(f"the {what} is {name!r}; give text of 1 to {MAX_NAME} characters")
    return name
