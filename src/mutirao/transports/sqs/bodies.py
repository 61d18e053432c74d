"""Bodies: messages as text that SQS accepts, and back.

SQS carries only characters that XML has. JSON has a way to write those that XML lacks, so nothing
that is JSON is ever refused for its characters.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from mutirao.errors import TransportRefused
from mutirao.model.brokers.message import Header, Message

LARGEST = 1 << 20  # bytes of a message, and of a batch of them
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NOT_OURS = "it is no message of Mutirão; whoever published it must say how to read it"


class _Envelope(msgspec.Struct, omit_defaults=True):
    id: str
    task: str
    mutirao: int = msgspec.field(default=1)
    args: msgspec.Raw = msgspec.Raw(b"{}")
    queue: str = "default"
    attempt: int = 1
    run: int = 0
    lost: int = 0
    suspect: int = 0  # 1: it is one; 2: and its start is noted
    wait: float | None = None  # seconds that it waits after this delay
    key: str | None = None
    large: bool = False  # its arguments are in S3
    headers: Mapping[str, Header] = {}

    def __post_init__(self) -> None:
        if self.mutirao != 1:
            raise ValueError(f"form {self.mutirao} of messages, where 1 is known")


_decoder = msgspec.json.Decoder(_Envelope)
# Raised for a body of others; what stands in itself too deep is a RecursionError.
_UNFIT = (msgspec.MsgspecError, ValueError, RecursionError)


class Read(NamedTuple):
    """The content of a body: the message, the text to show, and why it cannot be read.

    `large`: its id if its arguments are in S3.
    """

    message: Message | None
    shown: bytes
    problem: str | None
    large: str | None = None


def body_of(message: Message, *, large: bool = False, wait: float = 0.0) -> str:
    """Return a message as a body, without its arguments if they are `large` and elsewhere.

    `wait`: seconds that it has still to wait when it comes.

    Raises:
        TransportRefused: its arguments are no JSON, or have characters that no XML has.
    """
    try:
        args = message.args.encode()
        msgspec.json.decode(args, type=dict[str, msgspec.Raw])
        envelope = _Envelope(
            message.id, message.task, 1, msgspec.Raw(b"{}" if large else args), message.queue,
            message.attempt, message.run, message.lost,
            1 + message.noted if message.suspect else 0, wait or None,
            message.ordering_key, large, dict(message.headers),
        )  # fmt: skip
        text = msgspec.json.encode(envelope).decode()
    except _UNFIT as unfit:
        raise TransportRefused(
            f"message {message.id} cannot be written: {unfit}; its arguments must be a JSON object"
            " of characters that exist"
        ) from None
    return escaped(text)


def as_first_attempt(body: str) -> str:
    """Return a body that asks for the first attempt again; one that is not ours as it is."""
    try:
        read = _decoder.decode(body)
    except _UNFIT:
        return body
    read.attempt, read.lost, read.suspect, read.wait = 1, 0, 0, None
    return escaped(msgspec.json.encode(read).decode())


def escaped(text: str) -> str:
    """Return JSON with the characters that XML lacks in the form that JSON has for them."""
    return _NOT_IN_XML.sub(_escape, text)


def message_in(body: str, receives: int = 1, fetch: Callable[[str], bytes] | None = None) -> Read:
    """Return the content of a body.

    `receives`: how often SQS has handed it out, where each is an attempt: in a FIFO queue, in which
    no message that is delivered again can be changed. Nor does SQS know which consumer was lost;
    one may have been, so that a message which ends its workers is dead once it has no attempts
    left.

    `fetch`: returns arguments that are in S3 by the message's id, or raises LookupError; None: they
    stay there.
    """
    try:
        read = _decoder.decode(body)
    except _UNFIT as unfit:
        return Read(None, body.encode(), f"{NOT_OURS} ({unfit})")
    args, large = bytes(read.args), read.id if read.large else None
    if large and fetch:
        try:
            args = fetch(large)
        except LookupError as unfit:
            return Read(None, body.encode(), str(unfit))
    before = max(0, receives - 1)
    message = Message(
        id=read.id, task=read.task, args=args.decode(), queue=read.queue,
        attempt=read.attempt + before, run=read.run, lost=read.lost + min(1, before),
        suspect=read.suspect > 0, noted=read.suspect > 1,
        ordering_key=read.key, headers=read.headers, delay=max(0.0, read.wait or 0.0),
    )  # fmt: skip
    return Read(message, body.encode() if large else args, None, large)


def number(attributes: Mapping[str, Any], name: str) -> int:
    """Return an attribute that SQS gives as text; 0 without it."""
    return int(attributes.get(name, 0))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
