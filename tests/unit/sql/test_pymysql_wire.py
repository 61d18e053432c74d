"""What is read past PyMySQL's own objects: packets, wherever they are cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pymysql.connections import MAX_PACKET_LEN
from pymysql.constants import FIELD_TYPE
from pymysql.converters import decoders
from pymysql.err import InternalError, OperationalError, ProgrammingError

from mutirao.sql.drivers.pymysql_wire import results

OK = b"\x00\x00\x00\x02\x00\x00\x00"
OK_AND_MORE = b"\x00\x00\x00\x0a\x00\x00\x00"
END = b"\xfe\x00\x00\x02\x00"
REFUSED = b"\xff\x28\x04#42000no such thing"


class Server:
    """A connection to which all of this is sent, in parts."""

    encoding, decoders, server_status = "utf8", decoders, 0
    _read_timeout = _write_timeout = None

    def __init__(self, *packets: bytes, size: int = 1_000_000, first: int = 1) -> None:
        self._next_seq_id, self.closed = 1, False
        numbered = enumerate(packets, start=first)
        sent = b"".join(_header(packet, n) + packet for n, packet in numbered)
        self.parts = [sent[n : n + size] for n in range(0, len(sent), size)]
        self._rfile = SimpleNamespace(read1=lambda most: self.parts.pop(0) if self.parts else b"")

    def _force_close(self) -> None:
        self.closed = True


def _header(packet: bytes, number: int) -> bytes:
    return len(packet).to_bytes(3, "little") + bytes([number % 256])


def column(kind: int, charset: int) -> bytes:
    """Return the description of a column."""
    names = b"\x03def" + b"\x01a" * 5
    end = charset.to_bytes(2, "little") + b"\x00\x01\x00\x00" + bytes([kind]) + b"\x00" * 5
    return names + b"\x0c" + end


def text(value: bytes) -> bytes:
    """Return a value as it stands in a row."""
    if len(value) <= 250:
        return bytes([len(value)]) + value
    return b"\xfd" + len(value).to_bytes(3, "little") + value


@pytest.mark.parametrize("size", [1, 3, 7, 1_000_000])
def test_wherever_it_is_cut(size: int) -> None:
    """Several results in an answer, each with its rows."""
    columns = [b"\x02", column(FIELD_TYPE.LONGLONG, 63), column(FIELD_TYPE.VAR_STRING, 45), END]
    rows = [b"\x02-7" + text("á".encode()), b"\xfb" + text(b"x" * 300), b"\xfb\x00"]
    conn: Any = Server(OK_AND_MORE, *columns, *rows, END[:3] + b"\x0a\x00", OK, size=size)
    found = results(conn, {})
    assert found == [[], [(-7, "á"), (None, "x" * 300), (None, "")], []]
    assert conn.server_status == 2


def test_a_value_of_two_packets() -> None:
    """What is as long as a packet can be goes on in the next."""
    row = b"\xfe" + MAX_PACKET_LEN.to_bytes(8, "little") + b"x" * MAX_PACKET_LEN
    parts = [row[:MAX_PACKET_LEN], row[MAX_PACKET_LEN:]]
    conn: Any = Server(b"\x01", column(FIELD_TYPE.BLOB, 63), END, *parts, END)
    [[(value,)]] = results(conn, {})
    assert value == b"x" * MAX_PACKET_LEN


@pytest.mark.parametrize(
    ("packets", "first", "error", "closed"),
    [
        ([OK_AND_MORE, REFUSED], 1, ProgrammingError, False),
        ([b"\x01", column(FIELD_TYPE.LONG, 63), END, REFUSED], 1, ProgrammingError, False),
        ([OK_AND_MORE], 1, OperationalError, True),  # and then nothing
        ([OK], 2, InternalError, True),
        ([b"\xfb/etc/passwd"], 1, InternalError, True),
    ],
)
def test_what_fails(packets: list[bytes], first: int, error: type[Exception], closed: bool) -> None:
    """An error of the server is raised; a connection that makes no sense is closed."""
    conn: Any = Server(*packets, first=first)
    with pytest.raises(error):
        results(conn, {})
    assert conn.closed is closed
