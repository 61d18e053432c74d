"""What a worker cannot run in: an interpreter whose threads and sockets others have replaced."""

import sys

from mutirao.errors import ConfigurationError

_ASKS = {"gevent.monkey": ("is_module_patched", "threading"),
         "eventlet.patcher": ("is_monkey_patched", "thread")}  # fmt: skip


def refuse_patched() -> None:
    """Raise ConfigurationError if gevent or eventlet has patched the threads of this process.

    The loops of a worker are asyncio's, and its heartbeat is a thread that must run whatever
    handlers do: with greenlets in their place neither does.
    """
    for name, (asks, what) in _ASKS.items():
        if (module := sys.modules.get(name)) is not None and getattr(module, asks)(what):
            raise ConfigurationError(
                f"{name.partition('.')[0]} has patched this process, and a worker needs threads and"
                " asyncio as they are; start it as a process of its own that is not patched, such"
                " as `mutirao worker`. To enqueue needs no worker, and works here"
            )
