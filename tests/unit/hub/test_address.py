"""The URLs of a hub."""

from __future__ import annotations

import pytest

from mutirao.errors import ConfigurationError
from mutirao.hub.address import Address, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("tcp://127.0.0.1:9000", Address("127.0.0.1", 9000)),
        ("tcp://hub", Address("hub", 8770)),
        ("tls://:secret@hub:1?ca=/etc/ca.pem", Address("hub", 1, tls=True, ca="/etc/ca.pem")),
        ("tcp://[::1]:1", Address("::1", 1)),
        ("unix:///run/hub.sock?name=shop", Address(path="/run/hub.sock", name="shop")),
    ],
)
def test_where_it_is(url: str, address: Address) -> None:
    """Host and port, or a path; how it is spoken to, and by which name."""
    found = parse_address(url)
    assert found.token == ("secret" if "secret" in url else "")
    assert found.with_token("").__class__ is Address
    assert str(found) == str(address)
    assert (found.host, found.port, found.path) == (address.host, address.port, address.path)
    assert (found.tls, found.ca, found.name) == (address.tls, address.ca, address.name)


def test_a_token_is_never_shown() -> None:
    """Neither in its text nor in what a traceback shows."""
    address = parse_address("tcp://:secret@127.0.0.1:8770")
    assert address.token == address.with_token("other").token == "secret"
    assert "secret" not in f"{address} {address!r}"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("127.0.0.1:8770", "begins with '127.0.0.1'|has no scheme"),
        ("", "has no scheme"),
        ("http://hub:8770", "begins with 'http'"),
        ("tcp://", "host and a port"),
        ("tcp://hub:70000", "a port of 1 to 65535"),
        ("tcp://hub/shop", "host and a port"),
        ("unix://hub.sock", "no absolute path"),
        ("tcp://:secret@hub:1?nme=shop", "nme=shop' has parameters that are not known"),
    ],
)
def test_what_is_no_address(url: str, why: str) -> None:
    """Refused in a sentence that does not repeat a token."""
    with pytest.raises(ConfigurationError, match=why) as refused:
        parse_address(url)
    assert "secret" not in str(refused.value)
