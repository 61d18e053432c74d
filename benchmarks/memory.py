"""`memory`: whether a worker grows with the jobs it does."""

from dataclasses import dataclass

from benchmarks.crew import Crew
from benchmarks.figures import Figures
from benchmarks.ground import ground
from benchmarks.load import PAYLOAD, Load
from mutirao.errors import ConfigurationError

STEPS = 20  # samples; the first one that counts is the second, when a tenth of the jobs are done
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How much memory a worker held, in bytes, when it had done so many jobs."""

    done: int
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The resident memory of a worker's process.

    `first` is what it held after a tenth of the jobs, `last` after all of them, in bytes;
    `growth` the difference as a share of `first`.
    """

    jobs: int
    first: int
    last: int
    growth: float
    samples: tuple[Sample, ...]

    def figures(self) -> Figures:
        """Return both ends and the growth."""
        return {
            "after a tenth of the jobs, MiB": self.first / MEBIBYTE,
            "after all jobs, MiB": self.last / MEBIBYTE,
            "growth, %": self.growth * 100,
        }


async def memory(url: str, *, jobs: int = 1_000_000, payload: int = PAYLOAD) -> Memory:
    """Have one worker drain many jobs and look at its memory now and then.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many.
        payload: bytes of each job's arguments.

    Raises:
        ConfigurationError: the system does not tell what a process holds.
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    samples = []
    async with ground(url) as place, Crew(url) as crew:
        await place.fill(Load(url).jobs(jobs, payload))
        await crew.start()
        for step in range(1, STEPS + 1):
            await crew.until(-(-jobs * step // STEPS))
            held = (await crew.so_far()).memory
            if held is None:
                raise ConfigurationError(
                    "this system does not tell what memory a process holds (there is no"
                    " /proc/self/statm); measure it on Linux"
                )
            samples.append(Sample(done=crew.board.done, memory=held))
        await crew.stop()
        await place.expect(jobs)
    first, last = samples[1].memory, samples[-1].memory
    return Memory(
        jobs=jobs, first=first, last=last, growth=last / first - 1, samples=tuple(samples)
    )
