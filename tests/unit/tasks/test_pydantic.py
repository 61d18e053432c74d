"""pydantic models come back from JSON as they were, or the task is refused."""

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, strategies as st
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    computed_field,
    create_model,
    field_serializer,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from mutirao.errors import InvalidArguments, InvalidTask
from mutirao.tasks.around.factories import Factories
from mutirao.tasks.handle import kept_result
from mutirao.tasks.signatures.signature import Signature

T = TypeVar("T")


class OrderIn(BaseModel):
    """As an API has it."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    order_id: int
    placed_at: datetime | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        """Told, never taken."""
        return f"order {self.order_id}"


class Strict(BaseModel):
    """Takes no text for a UUID, but in JSON."""

    model_config = ConfigDict(strict=True, frozen=True)
    id: UUID
    day: date
    price: Decimal
    wait: timedelta
    names: tuple[str, ...]
    colours: frozenset[str] = frozenset()


class Cat(BaseModel):
    """One of several."""

    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    """Another one."""

    kind: Literal["dog"] = "dog"
    name: str = Field(alias="dogName", default="Rex")


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Page(BaseModel, Generic[T]):
    """Of several."""

    items: list[T]
    next: "Page[T] | None" = None


class Numbers(RootModel[list[int]]):
    """A list with a name."""


class Packed(BaseModel):
    """Takes what it writes, which is not what it has."""

    inner: Json[dict[str, int]]
    raw: bytes = b""
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class Chosen(BaseModel):
    """Read under several names, one of which is written."""

    model_config = ConfigDict(extra="allow")
    a: int = Field(validation_alias=AliasChoices("x", "a"))
    b: int = Field(1, validation_alias="bb", serialization_alias="bb")
    c: int = Field(1, exclude=True)


@dataclass
class Home:
    """With models in it, and a union of them."""

    first: OrderIn
    pet: Pet | None
    others: list[Cat | Dog] = field(default_factory=list)
    raw: bytes = b"\xff"


class Box(msgspec.Struct, rename="camel", tag="box"):
    """The same."""

    the_first: OrderIn
    the_pet: Cat | Dog | int
    the_home: Home | None = None


class Bag(msgspec.Struct, Generic[T]):
    """Of anything."""

    what: T


class Named(TypedDict):
    """By name."""

    cat: Cat


class Placed(NamedTuple):
    """By place."""

    cat: Cat
    page: Page[Dog]


def made(kind: Any, **values: Any) -> Any:
    """Return a model, whatever a type checker thinks of aliases and of what pydantic converts."""
    return kind(**values)


ORDER = made(OrderIn, orderId=5, placedAt=datetime(2026, 3, 1, tzinfo=UTC))
STRICT = Strict(
    id=UUID(int=7), day=date(2026, 3, 1), price=Decimal("1.50"), wait=timedelta(5), names=("a",)
)
HOME = Home(ORDER, Dog(dogName="Bo"), [Cat(), Dog()])
BACK: list[tuple[Any, Any]] = [
    (OrderIn, ORDER),
    (OrderIn | None, None),
    (list[OrderIn], [ORDER, ORDER]),
    (dict[str, OrderIn], {"a": ORDER}),
    (Strict, STRICT),
    (list[Strict] | None, [STRICT]),
    (Pet, Dog(dogName="Bo")),
    (list[Pet], [Cat(lives=1), Dog()]),
    (Cat | Dog | int, 7),
    (Cat | Strict | list[bytes], [b"\xff\xfe"]),
    (Cat | Strict | None, STRICT),
    (list[Cat] | dict[str, Dog], {"a": Dog()}),
    (Page[Cat], Page[Cat](items=[Cat()], next=Page[Cat](items=[]))),
    (Page[Cat | Dog], Page[Cat | Dog](items=[Dog(), Cat()])),
    (Numbers, Numbers([1, 10**30])),
    (Packed, made(Packed, inner='{"a": 1}', raw=b"\xff")),
    (Chosen, made(Chosen, x=4, bb=2, more=[1])),
    (Home, HOME),
    (Box, Box(ORDER, Cat(), HOME)),
    (Box, Box(ORDER, 7)),
    (Bag[Cat | Dog], Bag(Dog())),
    (Bag[Home], Bag(HOME)),
    (Named, {"cat": Cat()}),
    (Placed, Placed(Cat(), Page[Dog](items=[Dog()]))),
    (tuple[Cat, int], (Cat(), 3)),
    (Annotated[int, Field(gt=3)], 4),
]  # fmt: skip


def taking(kind: Any) -> Signature:
    """Return the signature of a function with one parameter and a result of this type."""

    def handler(value: Any) -> Any:
        return value

    handler.__annotations__ = {"value": kind, "return": kind}
    return Signature(handler, "handle", Factories())


@pytest.mark.parametrize(("kind", "value"), BACK, ids=str)
def test_what_comes_back(kind: Any, value: Any) -> None:
    """Equal, and of the same class: as an argument and as a result."""
    signature = taking(kind)
    signature.check(with_result=True)
    _, arguments = signature.decode(signature.encode((value,), {}))
    result = signature.decode_result(kept_result("handle", value, 1).json)
    assert arguments == {"value": value}
    assert result == value
    assert type(arguments["value"]) is type(result) is type(value)


def test_the_wire_has_aliases() -> None:
    """So that other languages enqueue what an API would take."""
    payload = taking(OrderIn).encode((ORDER,), {})
    assert payload == '{"value":{"orderId":5,"placedAt":"2026-03-01T00:00:00Z"}}'


class Base(BaseModel):
    """Of those that are refused."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


class Revealing(BaseModel):
    """Three ways of writing a secret as it is, and one of writing the whole model."""

    first: SecretStr
    second: Annotated[SecretStr, PlainSerializer(lambda secret: secret.get_secret_value())]
    third: list[Annotated[SecretStr, PlainSerializer(lambda secret: secret.get_secret_value())]]

    @field_serializer("first")
    def reveal(self, secret: SecretStr) -> str:
        """As pydantic's manual has it."""
        return secret.get_secret_value()


class Whole(BaseModel):
    """Writes itself."""

    secret: SecretStr

    @model_serializer
    def write(self) -> dict[str, str]:
        """All of it."""
        return {"secret": self.secret.get_secret_value()}


def test_secrets_that_are_revealed() -> None:
    """Their model says itself how they are written."""
    for kind, value in (
        (Revealing, made(Revealing, first="a", second="b", third=["c"])),
        (Whole, made(Whole, secret="a")),
    ):
        signature = taking(kind)
        signature.check(with_result=True)
        assert signature.decode(signature.encode((value,), {})) == ((), {"value": value})


def one(kind: Any, *, field: Any = ..., **config: Any) -> type[BaseModel]:
    """Return a model with one field, `x`."""
    create: Any = create_model
    return create("Made", __config__=config, x=(kind, field))  # type: ignore[no-any-return]


ASTERISKS = ("is a Secret", "written as asterisks", "reveal it in a field_serializer")
REFUSED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "SecretStr": (one(SecretStr), ("'x' of the model Made is a SecretStr", *ASTERISKS[1:])),
    "SecretBytes": (one(SecretBytes), ("is a SecretBytes", *ASTERISKS[1:])),
    "Secret": (one(Secret[int]), ASTERISKS),
    "an optional secret": (one(SecretStr | None, field=None), ("is a SecretStr",)),
    "a list of secrets": (one(list[SecretStr]), ("is a SecretStr",)),
    "a nested secret": (one(one(SecretStr)), ("'x' of the model Made is a SecretStr",)),
    "a secret in a union": (Cat | one(SecretStr), ("is a SecretStr",)),
    "a secret in a list": (list[one(SecretStr)], ("is a SecretStr",)),  # type: ignore[misc]
    "two names": (
        one(int, field=Field(validation_alias="a", serialization_alias="b")),
        ("'x' of the model Made is written as 'b' and read from 'a'; give both one alias",),
    ),
    "read elsewhere": (
        one(int, field=Field(validation_alias="a")),
        ("is written as 'x' and read from 'a'",),
    ),
    "written elsewhere": (
        one(int, field=Field(serialization_alias="a")),
        ("is written as 'a' and read from 'x'",),
    ),
    "a path": (one(int, field=Field(validation_alias=AliasPath("a", 0))), ("read from a path",)),
    "never by alias": (
        one(int, field=Field(alias="a"), validate_by_alias=False, validate_by_name=True),
        ("is written as 'a' and read from 'x'",),
    ),
    "excluded": (one(int, field=Field(exclude=True)), ("is excluded and required", "a default")),
    "bytes of two kinds": (one(bytes, ser_json_bytes="base64"), ("base64 and read in utf8",)),
    "a bare secret": (SecretStr, ("JSON has no form for the type SecretStr",)),
    "models and Structs": (Cat | Box, ("Unable to generate pydantic-core schema",)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_not_come_back(what: str) -> None:
    """Is refused by its name before any call, as a parameter and as a result."""
    kind, words = REFUSED[what]
    signature = taking(kind)
    with pytest.raises(InvalidTask) as refused:
        signature.check()
    for expected in ("task 'handle': the parameter 'value'", *words):
        assert expected in str(refused.value)
    signature = Signature(lambda: None, "handle", Factories())
    signature._function.__annotations__ = {"return": kind}
    signature.check()
    with pytest.raises(InvalidTask, match="the result, which is kept, has an annotation"):
        signature.check(with_result=True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (OrderIn, {"order_id": 5}),
        (Strict, Cat()),
        (Pet, {"kind": "bird"}),
        (Annotated[int, Field(gt=3)], 3),
        (one(float | None), one(float | None)(x=float("nan"))),
        (one(bytes), one(bytes)(x=b"\xff")),
    ],
    ids=str,
)
def test_values_that_do_not_fit(kind: Any, value: Any) -> None:
    """Are refused at the caller."""
    with pytest.raises(InvalidArguments, match="task 'handle' cannot take these arguments"):
        taking(kind).encode((value,), {})


def test_models_that_are_defined_later() -> None:
    """An annotation may name what stands further down."""

    class Early(BaseModel):
        late: "Later"

    signature = taking(Early)
    with pytest.raises(InvalidTask, match="cannot be resolved: name 'Later' is not defined"):
        signature.check()

    class Later(BaseModel):
        n: int

    Early.model_rebuild(_types_namespace={"Later": Later})
    value = Early(late=Later(n=3))
    assert signature.decode(signature.encode((value,), {})) == ((), {"value": value})


TEXT = st.text('aé日🎈"\\ ', max_size=5)  # to draw from all of Unicode takes seconds at first
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: TEXT,
    bool: st.booleans(),
    bytes: st.binary(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=st.just(UTC)),
    date: st.dates(),
    timedelta: st.timedeltas(timedelta(-10_000), timedelta(10_000)),
    UUID: st.uuids(),
    Cat: st.builds(Cat, lives=st.integers(0, 9)),
    Pet: st.one_of(st.builds(Cat), st.builds(Dog, dogName=TEXT)),
    Page[Cat]: st.just(Page[Cat](items=[Cat()])),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


def several(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Return types made of others, with their values."""
    some: Any = list
    by_name: Any = dict
    pair: Any = tuple
    return st.one_of(
        inner.map(lambda of: (of[0] | None, st.none() | of[1])),
        inner.map(lambda of: (some[of[0]], st.lists(of[1], max_size=3))),
        inner.map(lambda of: (by_name[str, of[0]], st.dictionaries(TEXT, of[1], max_size=3))),
        inner.map(lambda of: (pair[of[0], int], st.tuples(of[1], PLAIN[int]))),
    )


TYPED = st.recursive(st.sampled_from([*PLAIN.items()]), several, max_leaves=3)
ALIASES: list[dict[str, Any]] = [
    {},
    {"alias": "an-alias"},
    {"validation_alias": AliasChoices("other", "this"), "serialization_alias": "this"},
]


@given(st.data())
def test_any_model(data: st.DataObject) -> None:
    """With any fields, aliases and configuration."""
    kinds = data.draw(st.dictionaries(st.sampled_from(["a_b", "c", "d_e"]), TYPED, min_size=1))
    named = {name: data.draw(st.sampled_from(ALIASES)) for name in [*kinds][:1]}
    fields: dict[str, Any] = {
        name: (kind, Field(**named.get(name, {}))) for name, (kind, _) in kinds.items()
    }
    config = ConfigDict(
        alias_generator=data.draw(st.sampled_from([None, to_camel])),
        strict=data.draw(st.booleans()),
        extra=data.draw(st.sampled_from(["ignore", "forbid", "allow"])),
        validate_by_name=data.draw(st.booleans()),
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )
    model: Any = create_model("Any", __config__=config, **fields)
    value = model.model_construct(**{name: data.draw(each) for name, (_, each) in kinds.items()})
    ways = {
        "alone": (model, value),
        "one of": (Cat | model, value),
        "in": (list.__class_getitem__(model), [value]),
    }
    kind, given = ways[data.draw(st.sampled_from([*ways]))]
    signature = taking(kind)
    assert signature.decode(signature.encode((given,), {})) == ((), {"value": given})


def test_it_is_not_imported_for_others() -> None:
    """Whoever has no models needs no pydantic, even if it is installed."""
    program = """
import sys
from mutirao import Mutirao
app = Mutirao()
@app.task(keep_result=True)
def add(a: int, b: list[int] | None = None) -> dict[str, int]: ...
app.task_named("add").check()
add.job(1, b=[2])
print("pydantic" in sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert output.stdout == "False\n"
