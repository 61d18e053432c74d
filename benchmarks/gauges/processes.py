"""The processor time of a server that runs on this machine, from Linux's `/proc`."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class _Times(NamedTuple):
    """A process's parent, and its clock ticks: its own, and those of children that have ended."""

    parent: int
    own: int
    ended: int


def server_cpu(backend: int, port: int | None) -> float | None:
    """Return the seconds that PostgreSQL's processes took so far, ended sessions included.

    Parameters:
        backend: the process id of one session, by the server.
        port: the session's port at the client, None for a Unix socket.

    Returns:
        None where that session is no process of this machine.
    """
    session = _times(backend)
    if session is None or not _is_session(backend, port):
        return None
    server = session.parent
    while (before := _times(server)) is not None:
        ticks = before.own + before.ended + sum(_children(server))
        # A session that ends meanwhile would be counted twice, or not at all.
        after = _times(server)
        if after is not None and after.ended == before.ended:
            return ticks / os.sysconf("SC_CLK_TCK")
    return None


def process_cpu(pid: int, names: Collection[str]) -> float | None:
    """Return the seconds that a process took so far; None where it is none of these programs.

    One that a loader of its own has started is known by what that was told.
    """
    try:
        told = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        programs = {(_PROC / str(pid) / "comm").read_text().strip(), *(Path(t).name for t in told)}
    except OSError:
        return None
    times = None if programs.isdisjoint(names) else _times(pid)
    return None if times is None else times.own / os.sysconf("SC_CLK_TCK")


def _is_session(pid: int, port: int | None) -> bool:
    """Tell whether that process is the session itself, and not another machine's namesake."""
    try:
        title = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    whence = "[local]" if port is None else f"({port})"
    return title.startswith("postgres") and whence in title


def _children(parent: int) -> Iterator[int]:
    for path in _PROC.iterdir():
        if path.name.isdigit():
            times = _times(int(path.name))
            if times is not None and times.parent == parent:
                yield times.own


def _times(pid: int) -> _Times | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the state and the parent follow it.
    fields = stat.rpartition(")")[2].split()
    parent, (user, system, ended_user, ended_system) = int(fields[1]), map(int, fields[11:15])
    return _Times(parent, user + system, ended_user + ended_system)
