"""Claims and settlements that made other jobs ready, and in which lanes."""

from collections.abc import Collection, Sequence

from mutirao.model.jobs.claim import Claim
from mutirao.model.jobs.lanes import Lane, Wake


class Settled(set[int]):
    """The ids of settled jobs, and the lanes in which their end made other jobs ready."""

    woken: tuple[Wake, ...] = ()


class Claimed(list[Claim]):
    """Claimed jobs, and lanes in which other jobs may be ready that were not claimed.

    `again`: another transaction, which locks other counters, may claim more.
    """

    woken: tuple[Wake, ...] = ()
    again: bool = False


def without(claims: list[Claim], held: Collection[int]) -> list[Claim]:
    """Return claims without those that are held back: others may be due behind them in their lanes.

    If many are held back at the front of a lane, one claim meets only a few of them: a worker that
    waited for a wake-up after that would find the others only at the next poll.
    """
    if not held:
        return claims
    left = Claimed(claim for claim in claims if claim.id not in held)
    lanes = {
        (claim.lane, claim.priority): Wake(claim.lane, claim.priority, claim.run_at)
        for claim in claims
        if claim.id in held
    }
    left.woken = (*getattr(claims, "woken", ()), *lanes.values())
    return left


def both(some: set[int], others: set[int]) -> set[int]:
    """Return the ids of two settlements, with the wakes of both."""
    woken = tuple(
        wake for each in (some, others) if isinstance(each, Settled) for wake in each.woken
    )
    merged = Settled(some | others)
    merged.woken = woken
    return merged if woken else set(merged)


def anywhere() -> Settled:
    """Return a settlement of nothing, by which jobs of some lane became ready."""
    settled = Settled()
    settled.woken = (Wake(),)
    return settled


def lowered(lanes: Sequence[Lane], wakes: Sequence[Wake]) -> list[Lane]:
    """Return the lanes with their bounds lowered to where jobs returned to them."""
    back = {(wake.queue, wake.priority): wake.run_at for wake in wakes}
    bounds = ((lane, back.get((lane.queue, lane.priority))) for lane in lanes)
    return [
        lane if at is None or at > lane.run_at else lane._replace(run_at=at, id=0)
        for lane, at in bounds
    ]
