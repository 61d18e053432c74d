"""Faster interpolation of values and reading of results on connections of PyMySQL.

PyMySQL makes an object of each packet and calls five functions for each value. This module does the
same in one loop, and caches the descriptions of columns: they were the larger part of the client's
time for a claim or a settlement. Everything else stays with PyMySQL: connecting, TLS, sending,
errors, and the bytes of a packet.
"""

from collections.abc import Callable
from typing import Any

from pymysql.connections import MAX_PACKET_LEN, TEXT_TYPES
from pymysql.constants import FIELD_TYPE
from pymysql.constants.CR import CR_SERVER_LOST
from pymysql.constants.SERVER_STATUS import (
    SERVER_MORE_RESULTS_EXISTS,
    SERVER_STATUS_NO_BACKSLASH_ESCAPES,
)
from pymysql.converters import through
from pymysql.err import InternalError, OperationalError
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket, OKPacketWrapper

from mutirao.sql.drivers.steps import Row, Rows

Convert = Callable[[bytes], Any]
Columns = dict[bytes, Convert]  # what makes values of a column's bytes, by its description

_BINARY = 63  # the number of that character set
MOST_KNOWN = 1_000  # columns; the name of one may have values in it
_NULL, _TWO_BYTES, _THREE_BYTES, _EIGHT_BYTES = 251, 252, 253, 254  # what a length begins with
_END, _ERROR, _LONGEST_END = 0xFE, 0xFF, 8
_AT_ONCE = 65_536  # bytes
_LOST = "Lost connection to MySQL server during query"


def written(conn: Any, params: Row) -> Row:
    """Return values in their form in a statement's text."""
    if conn.server_status & SERVER_STATUS_NO_BACKSLASH_ESCAPES:
        return tuple(map(conn.escape, params))
    return tuple(
        [
            value
            if (kind := type(value)) is int
            else "NULL"
            if value is None
            else _quoted(value)
            if kind is str
            else conn.escape(value)
            for value in params
        ]
    )


def _quoted(text: str) -> str:
    r"""Quote a text. PyMySQL takes 15 µs for JSON of 300 characters, character by character."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\0" in text:
        text = text.replace("\0", "\\0")
    return "'" + text.replace("'", "''") + "'"


def results(conn: Any, known: Columns) -> list[Rows]:
    """Read what the server answers to a text: the rows of each of its statements.

    `known`: the columns that this connection has had, to which others are added.

    Raises:
        pymysql.MySQLError: a statement failed, none after it was done; or the connection is lost.
    """
    if len(known) > MOST_KNOWN:
        known.clear()
    packets = _Packets(conn)
    found, status = list[Rows](), SERVER_MORE_RESULTS_EXISTS
    while status & SERVER_MORE_RESULTS_EXISTS:
        first, rows = MysqlPacket(packets.next(), conn.encoding), list[Row]()
        if first.is_ok_packet():
            status = OKPacketWrapper(first).server_status
        elif first.is_load_local_packet():
            conn._force_close()
            raise InternalError("the server asks for a file in place of an answer")
        else:
            status = _read(packets, first.read_length_encoded_integer() or 0, known, rows)
        conn.server_status = status
        found.append(rows)
    return found


def _read(packets: "_Packets", columns: int, known: Columns, rows: Rows) -> int:
    """Read the rows of a result; return the server's status at its end."""
    converts = list[Convert]()
    for _ in range(columns):
        definition = packets.next()
        convert = known.get(definition)
        if convert is None:
            convert = known[definition] = _convert(packets.conn, definition)
        converts.append(convert)
    packets.next()  # ends the columns
    while True:
        packet = packets.next()
        if packet[0] == _END and len(packet) <= _LONGEST_END:
            return packet[3] | packet[4] << 8
        rows.append(_row(packet, converts))


class _Packets:
    """The packets of an answer. Nothing comes after its last one, so all bytes are read at once."""

    def __init__(self, conn: Any) -> None:
        self.conn, self._came, self._at = conn, b"", 0

    def next(self) -> bytes:
        """Return the next packet; raise its error, if it is one."""
        packet, size = self._part()
        while size == MAX_PACKET_LEN:
            part, size = self._part()
            packet += part
        if packet[0] == _ERROR:
            MysqlPacket(packet, self.conn.encoding).raise_for_error()
        return packet

    def _part(self) -> tuple[bytes, int]:
        at, came = self._at, self._came
        if len(came) < at + 4:
            came, at = self._more(4), 0
        size = came[at] | came[at + 1] << 8 | came[at + 2] << 16
        if came[at + 3] != self.conn._next_seq_id:
            self.conn._force_close()
            raise InternalError(f"packet {came[at + 3]} in place of {self.conn._next_seq_id}")
        self.conn._next_seq_id = (came[at + 3] + 1) % 256
        end = at + 4 + size
        if len(came) < end:
            came, at, end = self._more(4 + size), 0, 4 + size
        self._at = end
        return came[at + 4 : end], size

    def _more(self, size: int) -> bytes:
        """Read until so many bytes are there that were not returned; return what is."""
        conn, parts = self.conn, [self._came[self._at :]]
        if conn._read_timeout != conn._write_timeout:  # the one of what was sent is in force
            conn._sock.settimeout(conn._read_timeout)
            conn._current_timeout = conn._read_timeout
        left = size - len(parts[0])
        while left > 0:
            part = self._received(conn)
            parts.append(part)
            left -= len(part)
        self._came, self._at = b"".join(parts), 0
        return self._came

    def _received(self, conn: Any) -> bytes:
        try:
            part: bytes = conn._rfile.read1(_AT_ONCE)
        except OSError as error:
            conn._force_close()
            raise OperationalError(CR_SERVER_LOST, f"{_LOST} ({error})") from error
        except BaseException:
            conn._force_close()
            raise
        if not part:
            conn._force_close()
            raise OperationalError(CR_SERVER_LOST, _LOST)
        return part


def _row(packet: bytes, converts: list[Convert]) -> Row:
    values, at = list[Any](), 0
    for convert in converts:
        size = packet[at]
        at += 1
        if size == _NULL:
            values.append(None)
            continue
        if size > _NULL:
            more = {_TWO_BYTES: 2, _THREE_BYTES: 3, _EIGHT_BYTES: 8}[size]
            size = int.from_bytes(packet[at : at + more], "little")
            at += more
        values.append(convert(packet[at : at + size]))
        at += size
    return tuple(values)


def _convert(conn: Any, definition: bytes) -> Any:
    """Return what makes of a column's bytes what PyMySQL makes of them."""
    column: Any = FieldDescriptorPacket(definition, conn.encoding)
    kind, encoding = column.type_code, "ascii"
    convert: Any = conn.decoders.get(kind)
    if convert is through:
        convert = None
    if kind in TEXT_TYPES and column.charsetnr == _BINARY:
        return convert or bytes
    if convert in (int, float):  # these take bytes
        return convert
    if kind in TEXT_TYPES or kind == FIELD_TYPE.JSON:
        encoding = conn.encoding
    if convert is None:
        return lambda value: value.decode(encoding)
    return lambda value: convert(value.decode(encoding))
