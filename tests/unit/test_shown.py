"""What people are shown of a URL, however it is written: never its password, nor a part of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, strategies as st
from sqlalchemy import make_url

from mutirao import Mutirao
from mutirao.errors import InvalidEndpoint, MutiraoError
from mutirao.hub.address import parse_address
from mutirao.model.display import one_line, without_password
from mutirao.model.webhooks.webhook_rules import host_of
from mutirao.sql.connections.listed import named
from mutirao.sql.connections.urls import parse_url, shown
from mutirao.transports.rabbitmq import RabbitMQ
from mutirao.transports.sqs import SQS

# A mark that stands nowhere else, with all that divides a URL.
MARK = "qzx7"
PASSWORDS = (
    st.lists(st.sampled_from([MARK, MARK.upper(), *"@:/?#[]%&=\\ \n"]), min_size=1, max_size=8)
    .map("".join)
    .filter(lambda text: MARK in text.lower() and not text.startswith("//"))
)
BEGINNINGS = [*(f"{each}://" for each in ("postgresql+psycopg", "amqp", "tcp", "https")), "", "\t"]
BEGINNINGS += [" mysql+pymysql://"]


def shows_part(said: str) -> bool:
    """Whether a text has a part of a password."""
    return MARK in said.lower()


@given(st.sampled_from(BEGINNINGS), st.sampled_from(["shop", ""]), PASSWORDS)
def test_no_part_of_a_password_is_shown(beginning: str, user: str, password: str) -> None:
    """Whatever it holds, and whether or not there is a scheme, or a blank before it."""
    found = without_password(f"{beginning}{user}:{password}@host:1/shop?name=a")
    assert not shows_part(found)
    assert found.isprintable()
    assert found.endswith("@host:1/shop?name=a")


@given(st.text())
def test_any_text_is_one_line(text: str) -> None:
    """Nothing in it acts."""
    assert without_password(text).isprintable()
    assert one_line(text).isprintable()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql+psycopg://shop:secret@localhost/shop",
            "postgresql+psycopg://shop:***@localhost/shop",
        ),
        ("postgresql+psycopg://shop@localhost/shop", "postgresql+psycopg://shop@localhost/shop"),
        ("sqlite:////var/lib/shop.db", "sqlite:////var/lib/shop.db"),
        ("postgresql://h/shop?user=a&password=b", "postgresql://h/shop?user=a&password=***"),
        ("host=h password='b c' user=a", "host=h password=*** user=a"),
        ("postgresql://h/shop?sslpassword=b&x=1", "postgresql://h/shop?sslpassword=***&x=1"),
        ("shop:secret@localhost", "shop:***@localhost"),
        (" postgresql://shop:p@ss@localhost/", " postgresql://shop:***@localhost/"),
    ],
)
def test_what_is_no_secret_is_shown(url: str, expected: str) -> None:
    """People have to know which database is meant."""
    assert without_password(url) == expected


READERS: dict[str, Callable[[str], object]] = {
    "application": lambda url: Mutirao(url).database,
    "parsed": lambda url: shown(parse_url(url)[0]),
    "listed": lambda url: named([url]).values(),
    "hub": lambda url: (parse_address(url), f"{parse_address(url)!r}"),
    "rabbitmq": lambda url: (repr(RabbitMQ(url)), RabbitMQ(url).name),
    "sqs": lambda url: SQS("a", endpoint_url=url).name,
    "webhook": host_of,
}


@pytest.mark.parametrize("reader", READERS)
@example(beginning="amqp://", password=f"?{MARK}&=?= =", query=False)  # only its end has an @
@example(beginning="tcp://", password=f"?{MARK}&=?= =", query=False)
@example(beginning="tcp://", password=f"?x={MARK}&ca=a", query=False)
@example(beginning="amqp://", password=f"?heartbeat={MARK}&a", query=False)
@example(beginning="postgresql+psycopg://", password=f"?{MARK}&a=b", query=True)
@example(beginning="https://", password=f"?{MARK}&a=b#{MARK}", query=True)
@example(beginning="amqp://", password=f"?:///{MARK}#[", query=True)  # the @ is in a fragment
@example(beginning="amqp://", password=f"/{MARK}#", query=False)
@example(beginning="amqp://", password=f"@{MARK}#", query=False)  # which @ ends it is not clear
@example(beginning="tcp://", password=f"@{MARK}?", query=False)
@example(beginning="postgresql+psycopg://", password=f"]@??={MARK}", query=False)
@given(beginning=st.sampled_from(BEGINNINGS), password=PASSWORDS, query=st.booleans())
def test_whoever_reads_a_url(reader: str, beginning: str, password: str, query: bool) -> None:
    """Neither what it says of the URL, nor its error, has a part of the password."""
    url = f"{beginning}shop:{password}@host/shop" + ("?secret=a" if query else "")
    try:
        text = str(READERS[reader](url))
    except MutiraoError as error:
        text = str(error)
    assert not shows_part(text)


def test_more_than_one_at() -> None:
    """A password with an @ is refused before the driver shows its rest as a host."""
    with pytest.raises(MutiraoError, match=r"more than one @; write @ .* as %40"):
        Mutirao("postgresql+psycopg://shop:p@ss@localhost/shop").store  # noqa: B018
    parsed, _ = parse_url("postgresql+psycopg://shop:p%40ss@localhost/shop")
    assert parsed.password == "p@ss"
    assert shown(parsed) == "postgresql+psycopg://shop:***@localhost/shop"
    assert make_url(parsed).host == "localhost"


def test_an_endpoint_with_a_password() -> None:
    """Is refused, as any URL with a user."""
    with pytest.raises(InvalidEndpoint, match=r"https://shop:\*\*\*@host"):
        host_of("https://shop:secret@host/")
