"""A private RabbitMQ node: real, thrown away afterwards, and stopped whatever happens.

It has its own directory, ports, cookie and port mapper (epmd), so that it meets no other node of
this machine. It starts in some seconds: a session of tests shares one.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiormq
from pamqp.commands import Basic

from mutirao.ports import Transport
from tests.support.binaries import find_rabbitmq
from tests.support.servers import (
    Command,
    PrivateServer,
    ServerFailed,
    free_port,
    serve,
    unprivileged,
)

# Its standard input is a pipe that we hold: the port mapper ends with us, even by SIGKILL.
_EPMD = 'epmd -port "$1" -address 127.0.0.1 & while read -r _; do :; done; kill $!; wait'


class RabbitServer(PrivateServer):
    """One private node. Use it as a context manager."""

    name = "RabbitMQ"
    pid_file = "pid"
    at_once = signal.SIGKILL
    refusals = OSError
    patience = 180.0  # of a busy machine; else it takes some seconds

    def __init__(self) -> None:
        super().__init__()
        self._epmd: subprocess.Popen[bytes] | None = None
        self._epmd_port = self._dist_port = 0

    def url(self, who: str = "guest:guest") -> str:
        """Return the URL of its only virtual host, for a user and password."""
        return f"amqp://{who}@127.0.0.1:{self.port}/"

    def connect(self) -> socket.socket:
        """Return a connection on which the node has said hello."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        try:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            if not connection.recv(7):
                raise ConnectionResetError("the node closed the connection")
        except BaseException:
            connection.close()
            raise
        return connection

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl on this node; return what it printed. Takes a second or two."""
        program = find_rabbitmq().with_name("rabbitmqctl")
        command = ["/usr/bin/env", *self._environment(), str(program), "-q", *arguments]
        ran = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=self.directory
        )
        if ran.returncode:
            raise ServerFailed(self._explain(f"{' '.join(arguments)}: {ran.stdout}{ran.stderr}"))
        return ran.stdout

    def close(self) -> None:
        """Stop the node at once, and its port mapper; remove its directory."""
        super().close()
        if self._epmd is not None and self._directory is None:
            self._epmd.communicate()
            self._epmd = None

    def stop(self) -> None:
        """End the node without waiting for anybody; `start` starts it again, with what it kept."""
        self._end(self.at_once)

    def _make(self) -> None:
        find_rabbitmq()
        self._make_directory()
        self._epmd_port, self._dist_port = free_port(), free_port()
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(20))
        cookie.chmod(0o400)
        (self.directory / "plugins").write_text("[].\n")
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            "vm_memory_high_watermark.absolute = 512MB\ndisk_free_limit.absolute = 50MB\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
        )
        for each in (self.directory, *self.directory.iterdir()):
            _give_away(each)
        self._epmd = subprocess.Popen(
            [
                "/usr/bin/env",
                *self._environment(),
                "/bin/sh",
                "-c",
                _EPMD,
                "epmd",
                str(self._epmd_port),
            ],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _launch(self) -> None:
        super()._launch()
        (self.directory / self.pid_file).write_text(f"{self.pid}\n")  # for the watchdog

    def _command(self) -> Command:
        return ["/usr/bin/env", *self._environment(), find_rabbitmq()]

    def _environment(self) -> list[str]:
        here = self.directory
        # Its own Erlang, where both were extracted into a directory.
        beside = find_rabbitmq().parents[5] / "bin"
        said = {
            "HOME": here,
            "PATH": f"{beside}:{os.environ['PATH']}",
            "ERL_EPMD_PORT": self._epmd_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "mutirao@localhost",
            "RABBITMQ_DIST_PORT": self._dist_port,
            "RABBITMQ_MNESIA_BASE": here / "data",
            "RABBITMQ_LOG_BASE": here / "logs",
            "RABBITMQ_CONFIG_FILE": here / "rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": here / "plugins",
            "RABBITMQ_CONF_ENV_FILE": here / "none",
            # The node's own process is the one that was started: no shell is its parent.
            "RUNNING_UNDER_SYSTEMD": 1,
            # Idle schedulers sleep at once: the tests need the processor.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        }
        return [f"{name}={value}" for name, value in said.items()]


@asynccontextmanager
async def emptied(transport: Transport, server: RabbitServer, *queues: str) -> AsyncIterator[None]:
    """Lend a transport with these queues, and nothing in them; close its connections at the end."""
    exchanges = ("-dead", "-events", "-workers")
    names = [each for each in await transport.declare(queues) if not each.endswith(exchanges)]
    async with aiormq.connect(server.url()) as connection:
        channel = await connection.channel()
        for name in names[1:]:
            await channel.queue_purge(name)
    yield
    await transport.aclose()


async def delete_queue(server: RabbitServer, name: str) -> None:
    """Delete a queue, as somebody else."""
    async with aiormq.connect(server.url()) as connection:
        await (await connection.channel()).queue_delete(name)


async def publish_raw(
    server: RabbitServer,
    exchange: str,
    key: str,
    body: bytes,
    properties: Basic.Properties | None = None,
    **values: Any,
) -> None:
    """Publish a body as any program might, with these properties or with those of these values."""
    async with aiormq.connect(server.url()) as connection:
        channel = await connection.channel()
        said = properties or Basic.Properties(**values)
        await channel.basic_publish(body, exchange=exchange, routing_key=key, properties=said)


def _give_away(path: Path) -> None:
    if run_as := unprivileged():
        os.chown(path, run_as["user"], run_as["group"])


def main() -> None:
    """Run a node until Ctrl-C, and print its URL."""
    server = RabbitServer()
    serve(server, server.url)


if __name__ == "__main__":
    main()
