"""The properties of a message: unchanged ones are sent on byte for byte.

pamqp writes a text that is not UTF-8, a 64-bit number or a moment in milliseconds otherwise than it
has read it, or not at all. Properties and headers of other programs are not ours to change: they
are sent on as the bytes that came. Our own are encoded here.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from struct import Struct
from typing import Any, NamedTuple, cast

from pamqp import decode, encode
from pamqp.commands import Basic

MAX_NAME = 255  # bytes of a short string of AMQP: names, routing keys, ids
WORD, LENGTH, DOUBLE = Struct(">H"), Struct(">I"), Struct(">d")
# How many bytes a value has behind its type: always, or as many as stand before it.
_FIXED = {
    b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"u": 2, b"I": 4, b"i": 4, b"l": 8, b"L": 8, b"f": 4,
    b"d": 8, b"D": 5, b"T": 8, b"V": 0, b"\0": 0,
}  # fmt: skip
_COUNTED = (b"S", b"x", b"A", b"F")
_NAMES = Basic.Properties.attributes()
_FLAGS = Basic.Properties.flags
_HEADERS = "headers"


class Unread:
    """Stands for the value of a header that cannot be read."""


class _Kept(NamedTuple):
    raw: bytes
    value: object


class Properties(Basic.Properties):
    """Properties that write as it came what still has the value that was read of it."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._kept: Mapping[str, _Kept] = {}
        self._fields: Mapping[str, _Kept] = {}

    def keeping(self, read: Basic.Properties) -> "Properties":
        """Return these properties, which share the common ones with others."""
        if isinstance(read, Properties):
            self._kept, self._fields = read._kept, read._fields
        return self

    def marshal(self) -> bytes:
        """Return them as they travel."""
        flags, parts = 0, []
        for name in _NAMES:
            value, kept = getattr(self, name), self._kept.get(name)
            if kept is not None and kept.value is value:
                parts.append(kept.raw)
            elif value is None or value == "":
                continue
            elif name == _HEADERS:
                parts.append(_table(value, self._fields))
            else:
                parts.append(self.encode_property(name, value))
            flags |= _FLAGS[name]
        return WORD.pack(flags) + b"".join(parts)


def read(raw: bytes) -> tuple[Properties, Exception | None]:
    """Return properties as they travel, and why some of them cannot be read, if so.

    Such a one is None then, a header `Unread`; they are written as they came all the same.
    """
    found, problems = Properties(), list[Exception]()
    kept = dict[str, _Kept]()
    try:
        for name, part in _cut(raw):
            value = _value(name, part, found, problems)
            setattr(found, name, value)
            kept[name] = _Kept(part, value)
    except Exception as error:  # noqa: BLE001 (a broker passes no such properties)
        problems.append(error)
    found._kept = kept
    return found, next(iter(problems), None)


def wrapped(raw: bytes) -> bytes:
    """Return properties that any client can read, with these ones in a header of bytes."""
    name = read(raw)[0].message_id
    return Basic.Properties(message_id=name, headers={_WRAPPED: bytearray(raw)}).marshal()


def unwrapped(properties: Basic.Properties) -> Properties:
    """Return the properties that were wrapped, as far as they can be read."""
    held = (properties.headers or {}).get(_WRAPPED)
    return read(bytes(cast(bytearray, held)) if held is not None else WORD.pack(0))[0]


_WRAPPED = "raw"


def _value(name: str, part: bytes, found: Properties, problems: list[Exception]) -> Any:
    try:
        if name == _HEADERS:
            found._fields = _entries(part, problems)
            return {name: kept.value for name, kept in found._fields.items()}
        return _READ[Basic.Properties.amqp_type(name)](part)
    except Exception as error:  # noqa: BLE001 (whatever the client raises is reported)
        problems.append(error)
        return None


def _cut(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the existing properties, by name, in their form on the wire."""
    [flags], at = WORD.unpack_from(raw), WORD.size
    for name in _NAMES:
        if not flags & _FLAGS[name]:
            continue
        match Basic.Properties.amqp_type(name):
            case "shortstr":
                size = 1 + raw[at]
            case "table":
                size = LENGTH.size + LENGTH.unpack_from(raw, at)[0]
            case "timestamp":
                size = 8
            case _:
                size = 1
        yield name, raw[at : at + size]
        at += size


def _entries(table: bytes, problems: list[Exception]) -> dict[str, _Kept]:
    """Return the headers of a table, with their parsed values."""
    found, at = dict[str, _Kept](), LENGTH.size
    while at < len(table):
        ends = at + 1 + table[at]
        name, at = table[at + 1 : ends].decode(errors="surrogateescape"), ends
        kind = table[at : at + 1]
        size = 1 + (_FIXED[kind] if kind in _FIXED else _counted(kind, table, at))
        part = table[at : at + size]
        found[name] = _Kept(part, _read_field(part, problems))
        at += size
    return found


def _read_field(part: bytes, problems: list[Exception]) -> Any:
    try:
        return decode.embedded_value(part)[1]
    except Exception as error:  # noqa: BLE001 (whatever the client raises is reported)
        problems.append(error)
        return Unread()


def _counted(kind: bytes, table: bytes, at: int) -> int:
    if kind not in _COUNTED:
        raise ValueError(f"a header is of the type {kind!r}, which AMQP 0.9.1 does not have")
    return LENGTH.size + cast(int, LENGTH.unpack_from(table, at + 1)[0])


def _table(headers: Mapping[str, Any], kept: Mapping[str, _Kept]) -> bytes:
    parts = list[bytes]()
    for name, value in headers.items():
        encoded = name.encode(errors="surrogateescape")
        known = kept.get(name)
        same = known is not None and known.value is value
        parts += bytes([len(encoded)]), encoded, known.raw if known and same else _field(value)
    table = b"".join(parts)
    return LENGTH.pack(len(table)) + table


def _field(value: Any) -> bytes:
    """Return a value of Mutirão in its form on the wire."""
    match value:
        case float():
            return b"d" + DOUBLE.pack(value)
        case str():
            text = value.encode(errors="surrogatepass")
            return b"S" + LENGTH.pack(len(text)) + text
        case bytes():
            return b"S" + LENGTH.pack(len(value)) + value
        case dict():
            return b"F" + _table(value, {})
        case list():
            array = b"".join(map(_field, value))
            return b"A" + LENGTH.pack(len(array)) + array
    return encode.encode_table_value(cast("Decimal | datetime | int | bytearray | None", value))


def _short_text(part: bytes) -> str:
    """Return a text, with what is none in hexadecimal, as far as a text of AMQP has room for it."""
    text = part[1:].decode(errors="backslashreplace")
    return text.encode()[:MAX_NAME].decode(errors="ignore")


_READ: Mapping[str, Callable[[bytes], Any]] = {
    "shortstr": _short_text,
    "octet": lambda part: part[0],
    "timestamp": lambda part: decode.timestamp(part)[1],
}
