"""How a child process speaks to its parent."""

from __future__ import annotations

import socket
import threading

import pytest

from mutirao.engine.calls.child import _Sender
from mutirao.engine.calls.child_protocol import (
    ENDED,
    MAX_MESSAGE_BYTES,
    PROGRESS,
    ChildMessage,
    Inbox,
    InvalidMessage,
    packed,
)

MUCH = 1 << 20  # bytes; several times what a socket holds


def test_several_threads_speak() -> None:
    """One message after another, though each is sent in many pieces."""
    ours, theirs = socket.socketpair()
    voice, bodies = _Sender(theirs), [bytes([letter]) * MUCH for letter in b"abcdefgh"]
    voice.begin(1)
    speakers = [threading.Thread(target=voice.say, args=(PROGRESS, 1, body)) for body in bodies]
    with ours, theirs:
        for speaker in speakers:
            speaker.start()
        inbox, heard = Inbox(), list[ChildMessage]()
        while len(heard) < len(bodies):
            inbox.feed(ours.recv(MUCH))
            if (message := inbox.take()) is not None:
                heard.append(message)
        for speaker in speakers:
            speaker.join()
    assert sorted(heard) == [ChildMessage(PROGRESS, 1, body) for body in bodies]


def test_after_the_last_word() -> None:
    """Nothing is said of that order, nor of an earlier one."""
    ours, theirs = socket.socketpair()
    voice, inbox = _Sender(theirs), Inbox()
    with ours:
        with theirs:
            voice.begin(1)
            voice.conclude(ENDED, b"first")
            voice.say(PROGRESS, 1, b"late")
            voice.begin(2)
            voice.say(PROGRESS, 1, b"too late")
            voice.say(PROGRESS, 2, b"in time")
        inbox.feed(ours.recv(MUCH))
    assert [inbox.take(), inbox.take()] == [
        ChildMessage(ENDED, 1, b"first"),
        ChildMessage(PROGRESS, 2, b"in time"),
    ]
    assert not inbox


def test_messages_in_pieces() -> None:
    """However they are cut."""
    said = packed(PROGRESS, 1, b"abc") + packed(ENDED, 2)
    inbox, heard = Inbox(MAX_MESSAGE_BYTES), list[ChildMessage]()
    for byte in said:
        inbox.feed(bytes([byte]))
        if (message := inbox.take()) is not None:
            heard.append(message)
    assert heard == [ChildMessage(PROGRESS, 1, b"abc"), ChildMessage(ENDED, 2, b"")]


def test_no_message() -> None:
    """Is refused as soon as that is known."""
    for said in (b"hello, is anybody there?", packed(PROGRESS, 1, b"12345")):
        inbox = Inbox(most=4)
        inbox.feed(said)
        with pytest.raises(InvalidMessage):
            inbox.take()
