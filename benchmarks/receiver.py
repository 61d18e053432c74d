"""A receiver of webhooks, as a process of its own: one port answers at once, one never does.

    python -m benchmarks.receiver

It prints both ports on a line, and ends with its standard input.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ANSWERING, SILENT = "127.0.0.1", "127.0.0.2"  # hosts of their own, so that each has its breaker
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_HEAD_END, _LENGTH = b"\r\n\r\n", b"content-length:"


@contextmanager
def receiver() -> Iterator[tuple[str, str]]:
    """Run the process; yield the URL that answers, and the one that never does."""
    command = [sys.executable, "-m", "benchmarks.receiver"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers, silent = process.stdout.readline().split()
        yield f"http://{ANSWERING}:{answers}/hook", f"http://{SILENT}:{silent}/hook"
        process.stdin.close()


class Answering(asyncio.Protocol):
    """Answers each request of a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._heard = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer what is there as a whole."""
        self._heard += data
        while (end := self._heard.find(_HEAD_END)) >= 0:
            head = self._heard[:end].lower()
            _, _, length = head.partition(_LENGTH)
            whole = end + len(_HEAD_END) + int(length.split(b"\r\n")[0] or 0)
            if len(self._heard) < whole:
                return
            self._heard = self._heard[whole:]
            self._transport.write(_ANSWER)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(Answering, ANSWERING, 0),
        await loop.create_server(asyncio.Protocol, SILENT, 0),
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
