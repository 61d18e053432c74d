"""Graphs of jobs as values: chains, groups and free dependencies, independent of any store.

`mutirao.model.graphs.graph_plan.plan` checks a composed graph and numbers its steps; a store writes
that plan and keeps the promises of `mutirao.ports.Intake.enqueue_graph`.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mutirao.errors import InvalidGraph
from mutirao.model.jobs.job import NewJob

MAX_NAME = 200  # characters of the name of a graph or stage


class OnDead(StrEnum):
    """What happens to a graph when one of its steps dies or is cancelled."""

    STOP = "stop"  # later steps stay blocked; redriving the dead step continues
    CONTINUE = "continue"  # the step counts as finished, without a result
    COMPENSATE = "compensate"  # no more steps start, and those that succeeded are undone


# None of these is a dataclass: JSON would encode that, and accept a step as an argument.
class Reference:
    """A placeholder for the result of a step, or for a list of results, until the job runs.

    `of` is a step, or a tuple of such trees. None stands for the previous part of a chain or, in a
    compensating job, for the step that it undoes.
    """

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of


PREVIOUS: Any = Reference(None)
"""The result of the previous part of a chain; for a group, the list of its members' results."""


class Step:
    """A job in a graph; made by `step` or `Graph.add`."""

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
        """A placeholder for this step's result, to be used as an argument of a later step."""
        return Reference(self)


class Group:
    """Parts that do not wait for each other; made by `group`."""

    __slots__ = ("parts",)

    def __init__(self, parts: "tuple[Part, ...]") -> None:
        self.parts = parts

    @property
    def result(self) -> Any:
        """A placeholder for the list of the members' results, in order."""
        return Reference(tree_of(self))


class Chain:
    """Parts that run one after the other; made by `chain`."""

    __slots__ = ("parts",)

    def __init__(self, parts: "tuple[Part, ...]") -> None:
        self.parts = parts

    @property
    def result(self) -> Any:
        """A placeholder for the result of the last part."""
        return Reference(tree_of(self))


Part = Step | Group | Chain


class Graph:
    """Steps with free dependencies.

    Parameters:
        name: a name for people; up to 200 characters.
        on_dead: what happens when a step dies or is cancelled, unless the step has its own rule.
    """

    def __init__(self, name: str | None = None, *, on_dead: OnDead | str = OnDead.STOP) -> None:
        self.name, self.on_dead = _checked_name("name", name), _on_dead(on_dead)
        self._before: dict[Part, list[Part]] = {}

    def add(
        self, part: "NewJob | Part", after: "Part | Iterable[Part]" = (), **options: Any
    ) -> Any:
        """Add a job, step, chain or group that waits for the parts in `after`; return it as a part.

        `options` are those of `step`, if a job is given.

        Raises:
            InvalidGraph: the part was added before, or one of `after` was not.
        """
        added = step(part, **options) if isinstance(part, NewJob) else as_part(part)
        if added in self._before:
            raise InvalidGraph("this part is in the graph already; add each once")
        self._before[added] = []
        self.order(after, added)
        return added

    def order(self, before: "Part | Iterable[Part]", then: "Part") -> None:
        """Make `then` wait for `before`; both must have been added.

        Raises:
            InvalidGraph: one of them was not added.
        """
        earlier = [before] if isinstance(before, Part) else list(before)
        for each in (*earlier, then):
            if each not in self._before:
                raise InvalidGraph(
                    f"{shown(each)} is no part of this graph; add it first, and name what `add`"
                    " returned"
                )
        self._before[then] += earlier

    def in_order(self) -> "Iterator[tuple[Part, list[Part]]]":
        """Yield the parts with their predecessors, these first; raise InvalidGraph for a cycle."""
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
    """Return a job with its options in a graph.

    Parameters:
        stage: the name of this part of the pipeline, for people; the task's name unless given.
        on_dead: "stop", "continue" or "compensate", instead of the graph's.
        compensate: the job that undoes this step if the graph is compensated; `PREVIOUS` in its
            arguments is this step's result.

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
    """Return parts that run one after another, each once the previous one has succeeded.

    Raises:
        InvalidGraph: there are no parts, or one of them is neither a job nor a part.
    """
    if not parts:
        raise InvalidGraph("a chain is empty; give it at least one job")
    return Chain(_parts(parts))


def group(*parts: "NewJob | Part | Iterable[NewJob | Part]") -> Group:
    """Return parts that run at the same time; given one by one, or as one iterable.

    An empty group is done at once: the part after it waits for the part before it, and its
    result is the empty list.

    Raises:
        InvalidGraph: one of the parts is neither a job nor a part.
    """
    if len(parts) == 1 and isinstance(parts[0], Iterable):
        parts = tuple(parts[0])
    return Group(_parts(parts))


def tree_of(part: Part) -> Any:
    """Return the tree of steps whose results are the result of a part: a step, or a tuple."""
    if isinstance(part, Step):
        return part
    if isinstance(part, Chain):
        return tree_of(part.parts[-1])
    return tuple(tree_of(each) for each in part.parts)


def shown(part: object) -> str:
    """Return the description of a part for messages."""
    if isinstance(part, Step):
        return f"a step of {part.job.task!r}"
    return f"a {type(part).__name__.lower()}" if isinstance(part, Part) else repr(part)


def _parts(given: Iterable[Any]) -> tuple[Part, ...]:
    return tuple(step(each) if isinstance(each, NewJob) else as_part(each) for each in given)


def as_part(given: object) -> Part:
    """Return the given object if it is a part; raise InvalidGraph otherwise."""
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
