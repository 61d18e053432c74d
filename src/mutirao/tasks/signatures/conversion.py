"""The conversion of values to JSON and back, by annotation: msgspec's, and pydantic's for models.

msgspec reads one class that it does not know by a hook, but no union of several. A type that
pydantic must read as a whole is therefore replaced by a `StandIn`. The same holds for a dataclass
or Struct with such a field.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING
from json import JSONEncoder
from typing import Annotated, Any, ClassVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, inspect, json

from mutirao.model.brokers.message_id import MessageId
from mutirao.tasks.signatures import django_values, models
from mutirao.tasks.signatures.annotations import aliased, fields_of, is_union, named_in, of_parts

# Raised by conversion to and from JSON; a value that contains itself is a RecursionError.
UNFIT = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


def encoded(value: Any) -> bytes:
    """Return any value that msgspec or pydantic can convert, as JSON.

    Raises:
        ValueError: it has a number that JSON does not have: NaN, or an infinite one.
        MsgspecError, TypeError, OverflowError, RecursionError: it has no form in JSON.
    """
    payload = ENCODER.encode(value)
    if b"null" in payload:  # only then more has to be checked, which takes 1 to 2 µs
        _check_finite(value)
    return payload


def to_json(value: Any) -> str:
    """Return any value that msgspec or pydantic can convert, as JSON text; see `encoded`."""
    return encoded(value).decode()


def decoder(kind: Any) -> "json.Decoder[Any]":
    """Return a decoder for a result of `readable`, or for a Struct with such fields."""
    return json.Decoder(kind, dec_hook=_from_json)


def readable(annotation: Any) -> Any:
    """Return an annotation in a form by which msgspec can read values.

    Raises:
        NoForm: it contains a class that JSON has no form for.
        TypeError: its values would not come back from JSON unchanged.
        NameError: it names a type that is not defined (yet).
    """
    models.check_models(annotation, set())
    kind = _readable(annotation, ())
    for part in _parts_of(inspect.type_info(kind), []):
        if isinstance(part, inspect.CustomType) and not _has_form(part.cls):
            raise NoForm(f"JSON has no form for the type {part.cls.__name__}")
    return kind


class NoForm(TypeError):
    """JSON has no form for a type: only a factory can give such a value to a handler."""


class _Anything(type):
    def __instancecheck__(cls, _: object) -> bool:
        """Return True, so that msgspec accepts every result of `load`."""
        return True


class StandIn(metaclass=_Anything):
    """Replaces a part of an annotation that msgspec cannot read, and reads it."""

    load: ClassVar[Callable[[Any], Any]]


def _stand_in(load: Callable[[Any], Any]) -> type[StandIn]:
    return type("StandIn", (StandIn,), {"load": staticmethod(load)})


def _readable(annotation: Any, within: tuple[Any, ...]) -> Any:
    if any(annotation is each for each in within):
        return annotation
    within = (*within, annotation)
    plain = aliased(annotation)
    if plain is object:
        return Any
    if _is_for_pydantic(plain):
        return _stand_in(models.loader(plain))
    if fields := fields_of(plain):
        new = {name: _readable(kind, within) for name, kind in fields.items()}
        return plain if new == fields else _stand_in(_rebuilder(plain, new))
    if get_origin(plain) is Annotated:
        first, *rest = get_args(plain)
        return Annotated[(_readable(first, within), *rest)]
    return of_parts(plain, tuple(_readable(part, within) for part in get_args(plain)))


def _is_for_pydantic(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return any(models.is_pydantic(each) for each in annotation.__metadata__)
    several = is_union(annotation) and len({*get_args(annotation)} - {type(None)}) > 1
    return several and any(map(models.is_model, named_in(annotation)))


def _rebuilder(kind: Any, new: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a function that reads a dataclass or Struct with these annotations of fields."""
    like = (
        _struct_like(kind, new) if issubclass(kind, msgspec.Struct) else _dataclass_like(kind, new)
    )

    def load(value: Any) -> Any:
        return kind(**msgspec.structs.asdict(msgspec.convert(value, like, dec_hook=_from_json)))

    return load


def _struct_like(kind: Any, new: dict[str, Any]) -> Any:
    config = kind.__struct_config__
    fields = [
        (each.name, new[each.name], _default(each, NODEFAULT, name=each.encode_name))
        for each in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(
        kind.__name__,
        fields,
        kw_only=True,
        tag=config.tag,
        tag_field=config.tag_field,
        array_like=config.array_like,
        forbid_unknown_fields=config.forbid_unknown_fields,
    )


def _dataclass_like(kind: Any, new: dict[str, Any]) -> Any:
    fields = [
        (each.name, new[each.name], _default(each, MISSING))
        for each in dataclasses.fields(kind)
        if each.init
    ]
    return msgspec.defstruct(kind.__name__, fields, kw_only=True)


def _default(field: Any, none: object, **more: Any) -> Any:
    """Return msgspec's field with the default of another; `none` is its absence."""
    ways = {way: getattr(field, way) for way in ("default", "default_factory")}
    return msgspec.field(**{way: v for way, v in ways.items() if v is not none}, **more)


def _parts_of(part: Any, seen: list[Any]) -> list[Any]:
    """Return msgspec's description of a type, and all of its parts."""
    if isinstance(part, tuple):
        for each in part:
            _parts_of(each, seen)
    elif isinstance(part, inspect.Type | inspect.Field) and not any(part is s for s in seen):
        seen.append(part)
        _parts_of(tuple(getattr(part, name) for name in part.__struct_fields__), seen)
    return seen


def _has_form(kind: type) -> bool:
    return models.is_model(kind) or issubclass(kind, StandIn)


def _into_json(value: Any) -> Any:
    if isinstance(value, MessageId):
        return int(value)
    if models.is_model(type(value)):
        return models.dump(value)
    if (text := django_values.plain(value)) is not None:
        return text
    raise TypeError(
        f"{type(value).__name__} has no form in JSON, so pass plain data, such as an id"
    )


def _check_finite(value: Any) -> None:
    """Raise ValueError for a number that JSON does not have: msgspec writes it as null."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_into_json)
    except TypeError:  # a `msgspec.Raw`, which is JSON already
        return
    try:
        _FINITE.encode(plain)
    except ValueError:
        raise ValueError(
            "it has NaN or an infinite number, which JSON does not have and would say as null;"
            " give a finite number, or None"
        ) from None


def _from_json(kind: type, value: Any) -> Any:
    if issubclass(kind, StandIn):
        return kind.load(value)
    if models.is_model(kind):
        return models.load(kind, value)
    raise TypeError(f"JSON has no form for the type {kind.__name__}")


ENCODER = json.Encoder(enc_hook=_into_json)
_FINITE = JSONEncoder(allow_nan=False, check_circular=False)
SORTED = json.Encoder(enc_hook=_into_json, order="sorted")
