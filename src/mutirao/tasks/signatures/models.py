"""pydantic models as arguments and results: their form in JSON, and models that have none.

A model is written by alias, without computed fields, and read as JSON, so that strict models work.
Nothing here imports pydantic before a type of the user is one of pydantic's.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard, get_args, get_origin

import msgspec

from mutirao.tasks.signatures.annotations import parts

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_SECRETS = ("SecretStr", "SecretBytes", "Secret")
_SERIALIZERS = ("PlainSerializer", "WrapSerializer")


def is_model(kind: object) -> "TypeGuard[type[BaseModel]]":
    """Return whether this is a class of pydantic models."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def is_pydantic(annotation: object) -> bool:
    """Return whether only pydantic reads all of an annotation, such as a `Field` or a secret."""
    return _is_its(type(annotation)) or (isinstance(annotation, type) and _is_its(annotation))


def dump(model: "BaseModel") -> Any:
    """Return a model as a value of JSON; its own class reads it again with `load`."""
    return model.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)


def load(kind: "type[BaseModel]", value: Any) -> "BaseModel":
    """Return the model that was written as `value`."""
    return kind.model_validate_json(msgspec.json.encode(value))


def loader(annotation: Any) -> Callable[[Any], Any]:
    """Return a function that reads values which pydantic has to read as a whole.

    Raises:
        TypeError: pydantic cannot.
    """
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    # msgspec has written the bytes outside of models.
    as_msgspec = ConfigDict(val_json_bytes="base64")
    has_own = get_origin(annotation) is Annotated and is_model(get_args(annotation)[0])
    try:
        adapter = TypeAdapter[Any](annotation, config=None if has_own else as_msgspec)
    except PydanticUserError as unfit:
        raise TypeError(str(unfit).partition("\n")[0]) from unfit
    return lambda value: adapter.validate_json(msgspec.json.encode(value))


def fields_in_json(kind: "type[BaseModel]") -> dict[str, Any] | None:
    """Return the annotations of a model's fields by their names in JSON.

    A field with a serializer of its own has `Any`. None if the names are not known: the model is no
    object, allows any fields, or has a serializer for the whole.
    """
    whole = kind.__pydantic_decorators__.model_serializers or kind.__pydantic_root_model__
    if whole or kind.model_config.get("extra") == "allow":
        return None
    own = _with_serializer(kind)
    return {
        field.serialization_alias or name: Any if name in own else field.annotation
        for name, field in kind.model_fields.items()
        if not field.exclude
    }


def check_models(annotation: Any, seen: set[type]) -> None:
    """Raise TypeError if a model in an annotation has a field that would not come back.

    Raises:
        NameError: an annotation of a field names a type that is not defined (yet).
    """
    for part in parts(annotation):
        if is_model(part) and part not in seen:
            seen.add(part)
            _check_model(part, seen)


def _check_model(kind: "type[BaseModel]", seen: set[type]) -> None:
    kind.model_rebuild()
    if kind.__pydantic_decorators__.model_serializers:
        return  # it alone knows what it writes; each call is read again when it is enqueued
    own = _with_serializer(kind)
    for name, field in kind.model_fields.items():
        if (why := _loses(kind, name, field, own)) is not None:
            raise TypeError(f"the field {name!r} of the model {kind.__name__} {why}")
    for field in kind.model_fields.values():
        check_models(field.annotation, seen)


def _loses(kind: "type[BaseModel]", name: str, field: "FieldInfo", own: set[str]) -> str | None:
    """Return why a field would not come back from JSON, or None."""
    if (field.exclude or getattr(field, "exclude_if", None)) and field.is_required():
        return "is excluded and required, so it is not written and cannot be read; give a default"
    written = field.serialization_alias or name
    read = set(_names_read(kind, name, field))
    if written not in read:
        names = ", ".join(map(repr, sorted(read))) or "a path"
        return f"is written as {written!r} and read from {names}; give both one alias"
    if name in own:
        return None
    inside = [
        *parts(field.annotation, but=lambda part: _serializes(getattr(part, "__metadata__", ())))
    ]
    for secret in filter(None, map(_secret, inside)):
        return (
            f"is a {secret}, which is written as asterisks; pass the name under which the"
            " handler finds the secret, or reveal it in a field_serializer"
        )
    ways = [kind.model_config.get(way, "utf8") for way in ("ser_json_bytes", "val_json_bytes")]
    if bytes in inside and ways[0] != ways[1]:
        return (
            f"is written in {ways[0]} and read in {ways[1]}; give ser_json_bytes and val_json_bytes"
            " one value"
        )
    return None


def _with_serializer(kind: "type[BaseModel]") -> set[str]:
    """Return the names of the fields that have serializers of their own."""
    decorated = kind.__pydantic_decorators__.field_serializers.values()
    own = {name for each in decorated for name in each.info.fields}
    return {
        name
        for name, field in kind.model_fields.items()
        if name in own or "*" in own or _serializes(field.metadata)
    }


def _secret(part: Any) -> str | None:
    """Return the name of pydantic's secret type that this one is, or None."""
    root = get_origin(part) or part
    bases = root.__mro__ if isinstance(root, type) else ()
    return next((b.__name__ for b in bases if b.__name__ in _SECRETS and _is_its(b)), None)


def _names_read(kind: "type[BaseModel]", name: str, field: "FieldInfo") -> Iterator[str]:
    config = kind.model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    if by_name or field.validation_alias is None:
        yield name
    if field.validation_alias is None or config.get("validate_by_alias") is False:
        return
    for each in getattr(field.validation_alias, "choices", [field.validation_alias]):
        path = getattr(each, "path", [each])
        if len(path) == 1:
            yield str(path[0])


def _serializes(metadata: Iterable[object]) -> bool:
    return any(type(each).__name__ in _SERIALIZERS and _is_its(type(each)) for each in metadata)


def _is_its(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "pydantic"
