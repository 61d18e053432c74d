"""The lines that a hub and its clients exchange: one JSON object each; `op` is its kind.

`docs/hub.md` describes them for programs in other languages.
"""

from datetime import datetime
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, json

from mutirao.model.jobs.lanes import Wake

MAX_LINE = 64 * 1024  # bytes
Name = Annotated[str, Meta(max_length=1_000)]


class Serves(Struct, omit_defaults=True, frozen=True):
    """The lanes and tasks that a worker serves; None: all. `idle`: whether it wants wake-ups."""

    queues: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    tasks: tuple[str, ...] | None = None
    idle: bool = True


class HelloLine(Struct, tag_field="op", tag="hello", omit_defaults=True, frozen=True):
    """A client's first line. One that only announces jobs gives no `serves`."""

    database: Name
    token: Name = ""
    serves: Serves | None = None


class WakeLine(Struct, tag_field="op", tag="wake", omit_defaults=True, frozen=True):
    """Jobs have appeared in a lane; without a queue, in any.

    From a client, `jobs` says how many there are, and `task` of which task they are. From the hub,
    `after` says how many workers were woken before.
    """

    queue: Name | None = None
    priority: Annotated[int, Meta(ge=-32_768, le=32_767)] = 0
    run_at: Annotated[datetime, Meta(tz=True)] | None = None
    task: Name | None = None
    jobs: Annotated[int, Meta(ge=1, le=1 << 62)] = 1
    after: Annotated[int, Meta(ge=0, le=100)] = 0

    def wake(self) -> Wake:
        """Return it as the engine knows it."""
        return Wake(self.queue, self.priority, self.run_at, after=self.after)


class IdleLine(Struct, tag_field="op", tag="idle", frozen=True):
    """A worker wants wake-ups from now on, or none."""

    idle: bool


class PingLine(Struct, tag_field="op", tag="ping", frozen=True):
    """Are you there? The hub answers with the same line."""


class LooksLine(Struct, tag_field="op", tag="looks", frozen=True):
    """The hub's answer to a greeting: how often it looks at the database itself, in seconds.

    None: it does not. Sent again whenever that changes, after the next look, and with the answer to
    each ping: `looked` counts its looks, so that a worker knows that there are any.
    """

    every: float | None
    looked: Annotated[int, Meta(ge=0)] = 0


class RefusedLine(Struct, tag_field="op", tag="refused", frozen=True):
    """Why the hub closes the connection."""

    why: str


ClientLine = HelloLine | WakeLine | IdleLine | PingLine
HubLine = LooksLine | WakeLine | PingLine | RefusedLine
PING = b'{"op":"ping"}\n'

_client_lines, _hub_lines = json.Decoder(ClientLine), json.Decoder(HubLine)
_encoder = json.Encoder()


def line_of(said: ClientLine | HubLine) -> bytes:
    """Return the bytes of a line."""
    return _encoder.encode(said) + b"\n"


def read_client_line(line: bytes | bytearray) -> ClientLine:
    """Return the message in a client's line; raise ValueError if it is none of the protocol."""
    said: ClientLine = _read(_client_lines, line)
    return said


def read_hub_line(line: bytes) -> HubLine:
    """Parse a line of a hub; raise ValueError if it is none of the protocol."""
    said: HubLine = _read(_hub_lines, line)
    return said


def _read(decoder: json.Decoder[Any], line: bytes | bytearray) -> Any:
    try:
        return decoder.decode(line)
    except (DecodeError, UnicodeDecodeError, RecursionError) as garbage:
        raise ValueError(str(garbage)) from None
