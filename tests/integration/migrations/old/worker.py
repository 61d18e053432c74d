"""A worker of an old state of the package, told what to do by lines of JSON; see `OldWorker`."""

import asyncio
import json
import sys

from mutirao import Limit, Mutirao

app = Mutirao(sys.argv[1])
done: list[int] = []
may_end, stopped = asyncio.Event(), asyncio.Event()


@app.task
async def note(number: int) -> None:
    """Note that it ran."""
    done.append(number)


@app.task(limit=Limit(2))
async def limited(number: int) -> None:
    """Note that it ran, two at a time."""
    done.append(number)


@app.task
async def last_long(number: int) -> None:
    """Run until it is told to end."""
    await may_end.wait()
    done.append(number)


@app.task(limit=Limit(2))
async def later(number: int) -> None:
    """Wait for a worker of another time: this one stops before."""
    raise AssertionError(number)


TASKS = {"later": later, "note": note, "limited": limited, "last_long": last_long}


async def answer(what: str, task: str = "", key: str | None = None, number: int = 0) -> object:
    """Enqueue a job and return its id; or tell what is done."""
    if what == "enqueue":
        return (await TASKS[task].using(key=key).aenqueue(number)).id
    if what == "end":
        may_end.set()
    if what == "stop":
        stopped.set()
    return done


async def reply(line: str) -> None:
    """Write the answer to a line."""
    sys.stdout.write(json.dumps(await answer(**json.loads(line))) + "\n")
    sys.stdout.flush()


async def main() -> None:
    """Work until the input ends."""
    loop, read = asyncio.get_running_loop(), sys.stdin.readline
    async with app.worker(poll=0.5):
        while not stopped.is_set() and (line := await loop.run_in_executor(None, read)):
            await reply(line)
    while line := await loop.run_in_executor(None, read):
        await reply(line)
    await app.aclose()


asyncio.run(main())
