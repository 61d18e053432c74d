"""The plan of a composed graph: its rows, checked and numbered, predecessors first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from mutirao.errors import InvalidGraph
from mutirao.model.graphs.graph import Graph, Group, OnDead, Part, Step, shown, tree_of
from mutirao.model.jobs.graph_flags import IS_STEP, KEEPS_RESULT, TAKES_RESULTS, flagged
from mutirao.model.jobs.job import NewJob

Tree = int | list[Any]  # the number of a step, or a list of such trees
Needs = dict[str, Tree]  # by the name of the parameter that receives the results


class PlannedStep(NamedTuple):
    """A step to be written. It refers to earlier steps by their positions in the plan.

    `gate` is the first of the steps that wait for the same steps; None if it waits for nothing.
    """

    job: NewJob
    depth: int
    stage: str
    on_dead: OnDead
    gate: int | None
    needs: Needs
    compensate: NewJob | None
    compensate_needs: Needs


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph to be written. `gates` maps each gate to the steps that it waits for."""

    name: str | None
    steps: Sequence[PlannedStep]
    gates: Mapping[int, Sequence[int]]
    parts: Mapping[Step, int]

    @property
    def jobs(self) -> list[NewJob]:
        """The jobs, in the order of the steps."""
        return [each.job for each in self.steps]


def numbered(needs: Needs, ids: Sequence[int]) -> Needs:
    """Return the needs of a step with the ids of the steps instead of their positions."""
    return {name: _by_id(tree, ids) for name, tree in needs.items()}


def filled(args: dict[str, Any], needs: Needs, results: Mapping[int, Any]) -> dict[str, Any]:
    """Return the arguments with the results filled in; None for a missing result."""
    return args | {name: _looked_up(tree, results) for name, tree in needs.items()}


def steps_in(tree: Any) -> Iterator[Any]:
    """Yield the leaves of a tree."""
    if isinstance(tree, list | tuple):
        for each in tree:
            yield from steps_in(each)
    else:
        yield tree


def plan(composed: Graph) -> Plan:
    """Check a composed graph and number its steps, predecessors first.

    Raises:
        InvalidGraph: the graph is empty or has a cycle, contains a step twice, a step uses the
            result of one that does not come before it, or a step has a `compensate` that nothing
            would ever use.
    """
    return _Planner(composed).plan()


class _Gate(NamedTuple):
    """The gate that steps which wait for the same steps share."""

    number: int
    depth: int
    before: int  # the positions of all earlier steps, as bits


_OPEN = _Gate(-1, 0, 0)


@dataclass(slots=True)
class _Planner:
    composed: Graph
    steps: list[PlannedStep] = field(default_factory=list)
    places: dict[Step, int] = field(default_factory=dict)
    gates: dict[int, tuple[int, ...]] = field(default_factory=dict)
    gate_of: dict[int, _Gate] = field(default_factory=dict)  # by identity of the steps awaited
    ancestors: list[int] = field(default_factory=list)  # of each step, itself included, as bits
    kept: set[int] = field(default_factory=set)

    def plan(self) -> Plan:
        ends: dict[Part, tuple[int, ...]] = {}
        for part, before in self.composed.in_order():
            after = tuple(sorted({end for each in before for end in ends[each]}))
            ends[part] = self._lay(part, after, _result_before(before))
        if not self.steps:
            raise InvalidGraph("the graph has no steps, as it is empty or all its groups are")
        self._check_undoing()
        return Plan(self.composed.name, self._flagged(), self.gates, self.places)

    def _check_undoing(self) -> None:
        undone = [each.job.task for each in self.steps if each.compensate is not None]
        if undone and all(each.on_dead is not OnDead.COMPENSATE for each in self.steps):
            raise InvalidGraph(
                f"the graph says how {undone[0]!r} is undone, but nothing would ever undo it; give"
                ' the graph, or a step, on_dead="compensate"'
            )

    def _lay(self, part: Part, after: tuple[int, ...], previous: Any) -> tuple[int, ...]:
        """Number the steps of a part; return the steps that a part after it waits for."""
        if isinstance(part, Step):
            return (self._lay_step(part, after, previous),)
        if isinstance(part, Group):
            ends = [self._lay(each, after, previous) for each in part.parts]
            return tuple(dict.fromkeys(chain.from_iterable(ends))) or after
        for each in part.parts:
            after, previous = self._lay(each, after, previous), tree_of(each)
        return after

    def _lay_step(self, given: Step, after: tuple[int, ...], previous: Any) -> int:
        place = len(self.steps)
        if given in self.places:
            raise InvalidGraph(
                f"{shown(given)} is in the graph twice, which would be a circle; make a step of"
                " its own for each place"
            )
        self.places[given] = place
        gate = self._gate(after, place) if after else _OPEN
        self.ancestors.append(gate.before | 1 << place)
        undo = given.compensate
        self.steps.append(
            PlannedStep(
                job=given.job,
                depth=gate.depth + 1,
                stage=given.stage or given.job.task,
                on_dead=given.on_dead or self.composed.on_dead,
                gate=gate.number if after else None,
                needs=self._needs(given.job, gate.before, previous),
                compensate=undo,
                compensate_needs={} if undo is None else self._needs(undo, 1 << place, given),
            )
        )
        return place

    def _gate(self, after: tuple[int, ...], place: int) -> _Gate:
        """Return the one gate of all steps that wait for the same steps.

        With it a group after a group takes as many rows as both have members, not their product.
        """
        gate = self.gate_of.get(id(after))
        if gate is None:
            before = 0
            for each in after:
                before |= self.ancestors[each]
            gate = _Gate(place, max(self.steps[each].depth for each in after), before)
            self.gates[place], self.gate_of[id(after)] = after, gate
        return gate

    def _needs(self, job: NewJob, before: int, previous: Any) -> Needs:
        return {
            name: self._place_of(previous if tree is None else tree, job, name, before)
            for name, tree in job.refers.items()
        }

    def _place_of(self, tree: Any, job: NewJob, name: str, before: int) -> Tree:
        if isinstance(tree, tuple):
            return [self._place_of(each, job, name, before) for each in tree]
        place = self.places.get(tree)
        if place is None or not before >> place & 1:
            what = f"the result of {shown(tree)}" if isinstance(tree, Step) else "PREVIOUS"
            raise InvalidGraph(
                f"{name} of {job.task!r} is {what}, which does not come before it; put it after"
                " that step, in the same graph"
            )
        self.kept.add(place)
        return place

    def _flagged(self) -> list[PlannedStep]:
        """Flag the jobs for their workers; jobs that shared their options still share them."""
        alike: dict[tuple[int, tuple[str, ...]], NewJob] = {}
        steps = []
        for place, each in enumerate(self.steps):
            words = (*_words(each.needs), *([KEEPS_RESULT] if place in self.kept else []))
            kind = (id(each.job.checked), words)
            if kind not in alike:
                alike[kind] = _flagged(each.job, words)
            undo = each.compensate and _flagged(each.compensate, _words(each.compensate_needs))
            job = alike[kind].with_args(each.job.args)
            steps.append(each._replace(job=job, compensate=undo))
        return steps


def _result_before(before: Sequence[Part]) -> Any:
    """Return the tree of the part before; None if there is none."""
    if len(before) == 1:
        return tree_of(before[0])
    return tuple(map(tree_of, before)) or None


def _words(needs: Needs) -> tuple[str, ...]:
    return (IS_STEP, TAKES_RESULTS) if needs else (IS_STEP,)


def _flagged(job: NewJob, words: tuple[str, ...]) -> NewJob:
    return replace(job, refers={}, metadata=flagged(job.metadata, *words))


def _by_id(tree: Tree, ids: Sequence[int]) -> Tree:
    return [_by_id(each, ids) for each in tree] if isinstance(tree, list) else ids[tree]


def _looked_up(tree: Tree, results: Mapping[int, Any]) -> Any:
    return (
        [_looked_up(each, results) for each in tree]
        if isinstance(tree, list)
        else results.get(tree)
    )
