"""Starts child processes, and kills them with all that their handlers started.

Python's own `spawn` runs the main script of its parent again in each child. A script that does not
keep its start under `if __name__ == "__main__"` would start, or enqueue, a second time. A child
started here runs no script by itself (see `mutirao.engine.calls.main_script`).

A child leads a process group. Processes that its handlers start belong to the group, and are killed
with it.
"""

import io
import os
import signal
from contextlib import ExitStack, suppress
from multiprocessing import context, popen_spawn_posix, reduction, resource_tracker, spawn, util
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess

# What `spawn` gives its children of the main script.
_MAIN = ("init_main_from_name", "init_main_from_path")
_TAKEN = "its exit status was taken"


class ChildProcess(SpawnProcess):
    """A process that does not run the main script of this one, and is killed with its group."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> popen_spawn_posix.Popen:  # noqa: N802 (Python's)
        return _Started(process_obj)

    def has_ended(self) -> bool:
        """Return whether it has ended, also if other code took its exit status. Takes none."""
        return self._peek() is not None

    def kill(self) -> None:
        """Kill it with its group, or what is left of the group if it has ended.

        Nothing is killed once its exit status was taken: another process may have its pid then.
        """
        if self.pid is None or self._peek() == _TAKEN:
            return
        with suppress(ProcessLookupError, PermissionError):  # it leads no group yet
            os.killpg(self.pid, signal.SIGKILL)
        super().kill()

    def _peek(self) -> object:
        """Return how it has ended; None if it lives, or the system cannot say."""
        if self.pid is None or not hasattr(os, "waitid"):  # macOS, before Python 3.13
            return None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return _TAKEN


class _Started(popen_spawn_posix.Popen):
    """Starts a process with the steps of Python 3.11 to 3.13, except for the main script."""

    _fds: list[int]  # descriptors that the process inherits

    def _launch(self, process: BaseProcess) -> None:
        data = spawn.get_preparation_data(process.name)
        for key in _MAIN:
            data.pop(key, None)
        letter = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(data, letter)
            reduction.dump(process, letter)
        finally:
            context.set_spawning_popen(None)
        self._run(letter.getvalue())

    def _run(self, letter: bytes) -> None:
        if (tracker := resource_tracker.getfd()) is None:
            raise RuntimeError("there is no process that cleans up after multiprocessing")
        with ExitStack() as theirs, ExitStack() as ours:
            self.sentinel, held = _pipe(ours, theirs)  # readable when the process has ended
            source, sink = _pipe(theirs, ours)
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=source)
            given = [*self._fds, tracker, held, source]
            self.pid = util.spawnv_passfds(os.fsencode(spawn.get_executable()), command, given)
            with open(sink, "wb", closefd=False) as pipe:
                pipe.write(letter)
            self.finalizer = util.Finalize(self, ours.pop_all().close)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end, stack in zip(ends, (reader, writer), strict=True):
        stack.callback(os.close, end)
    return ends


def lead_group() -> None:
    """Make this process the leader of a new process group."""
    os.setpgid(0, 0)


def end_with_group() -> None:
    """Kill this process and its process group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
