"""The guard refuses what leads into one's own house, however it is written."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import NoReturn

import httpx2
import pytest
from hypothesis import example, given, strategies as st

from mutirao.errors import ConfigurationError, UnsafeUrl
from mutirao.webhooks import Guard, GuardedTransport, Target
from mutirao.webhooks.ranges import Address, danger
from mutirao.webhooks.wire import Wire

CORPUS = Path(__file__).with_name("hostile_urls.txt")
PUBLIC = ["93.184.215.14", "2606:2800:220:1:248:1893:25c8:1946", "1.1.1.1", "2a00:1450::1"]


def hostile() -> Iterator[tuple[str, str, list[str]]]:
    """Yield reason, URL and addresses of each line of the corpus."""
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            reason, url, *addresses = line.split(" | ")
            yield reason, url, " ".join(addresses).split()


def open_guard(addresses: Sequence[str] = (), networks: Sequence[str] = ()) -> Guard:
    """Return a guard that admits all schemes and ports, with a resolver that answers so."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    ports = range(1, 65_536)
    return Guard(schemes=["http", "https"], ports=ports, networks=networks, resolve=resolve)


async def no_connection(address: str, *_: object) -> NoReturn:
    """Fail where anything connects."""
    raise AssertionError(f"connected to {address}")


async def vetted(guard: Guard, url: str) -> list[str]:
    """Return the addresses that a URL would be delivered to."""
    target = guard.check(url)
    return await guard.vet(target.host, target.port)


def test_the_corpus_is_large() -> None:
    """At least 150 different URLs."""
    assert len({url for _, url, _ in hostile()}) >= 150


@pytest.mark.parametrize(
    ("reason", "url", "addresses"), [*hostile()], ids=[url for _, url, _ in hostile()]
)
async def test_hostile_urls_are_refused(reason: str, url: str, addresses: list[str]) -> None:
    """Each is refused for its reason, though any scheme of HTTP and any port is admitted."""
    guard = open_guard(addresses)
    with pytest.raises(UnsafeUrl) as refused:
        await vetted(guard, url)
    assert reason in str(refused.value)


async def test_hostile_urls_connect_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our transport for httpx2 opens no connection for any of them."""
    monkeypatch.setattr(Wire, "to", no_connection)
    context = ssl.create_default_context()
    for _, url, addresses in hostile():
        guard = open_guard(addresses)
        transport = GuardedTransport(guard, ssl_context=context)
        with pytest.raises((UnsafeUrl, httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
            await transport.handle_async_request(httpx2.Request("GET", url))


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses_pass(address: str) -> None:
    """As what a name resolves to, and written in the URL."""
    guard = open_guard([address])
    host = f"[{address}]" if ":" in address else address
    assert guard.check(f"https://{host}:8443/a?b=c") == Target("https", address, 8443)
    assert await guard.vet("example.com", 443) == [address]
    assert await guard.vet(address, 443) == [address]


def test_https_is_usual() -> None:
    """Without being told otherwise, neither http nor an unusual port is called."""
    guard = Guard()
    assert guard.check("https://Example.com/x") == Target("https", "example.com", 443)
    with pytest.raises(UnsafeUrl, match="its scheme is 'http'; expected one of \\['https'\\]"):
        guard.check("http://example.com/")
    with pytest.raises(UnsafeUrl, match="its port is 6379"):
        guard.check("https://example.com:6379/")


async def test_a_name_without_addresses_is_an_error() -> None:
    """A resolver that finds nothing is no leave to connect."""
    with pytest.raises(OSError, match=r"nowhere\.example has no address"):
        await open_guard([]).vet("nowhere.example", 443)


@pytest.mark.parametrize(
    ("networks", "address", "passes"),
    [
        (["10.1.0.0/16"], "10.1.2.3", True),
        (["10.1.0.0/16"], "10.2.0.1", False),
        (["10.1.0.0/16"], "1.1.1.1", True),
        (["fd00::/8"], "fd00::1", True),
        (["169.254.0.0/16"], "169.254.1.1", True),
        (["169.254.0.0/16", "0.0.0.0/0"], "169.254.169.254", False),
        (["169.254.169.254/32"], "169.254.169.254", True),
        (["168.0.0.0/8"], "168.63.129.16", False),
        (["64:ff9b::/96"], "64:ff9b::101:101", True),
        (["64:ff9b::/96"], "64:ff9b::7f00:1", False),
        (["64:ff9b::/96", "127.0.0.0/8"], "64:ff9b::7f00:1", True),
        (["::/0"], "::ffff:169.254.169.254", False),
        (["::/0"], "2002:7f00:1::", False),
        (["::/0"], "2001:0:4136:e378:8000:63bf:80ff:fffe", False),
        (["::1/128"], "::1", True),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", False),
    ],
)
async def test_networks_that_are_allowed(networks: list[str], address: str, passes: bool) -> None:
    """They add to the public ones; metadata and IPv4 inside of IPv6 are looked at all the same."""
    guard = open_guard([address], networks)
    if passes:
        assert await guard.vet("inside.example", 443) == [address]
    else:
        with pytest.raises(UnsafeUrl):
            await guard.vet("inside.example", 443)


ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.integers(0x2001 << 112, (0x2002 << 112) - 1).map(IPv6Address),
)


@given(ADDRESSES)
@example(ip_address("192.0.0.9"))
@example(ip_address("2001:1::1"))
def test_what_python_does_not_call_global_is_refused(address: Address) -> None:
    """A second opinion: the registry as the standard library has it."""
    if not address.is_global or address.is_multicast:
        assert danger(address, ()) is not None


@given(
    st.from_regex(
        r"https?://[a-zA-Z0-9.\[\]:@%_-]{1,20}(:[0-9]{1,5})?([/?][!-~]{0,9})?", fullmatch=True
    )
)
@example("https://a.b?c@d:80/")
@example("https://a:080/[")
def test_httpx2_reads_a_url_as_the_guard_does(url: str) -> None:
    """What is checked is what is called: scheme, host and port."""
    try:
        target = open_guard().check(url)
    except UnsafeUrl:
        return
    read = httpx2.URL(url)
    port = read.port or {"http": 80, "https": 443}[read.scheme]
    assert (read.scheme, read.host, port) == (target.scheme, target.host, target.port)
    assert read.userinfo == b""


def test_borders_of_networks() -> None:
    """The addresses right before and behind a refused network pass, if no other has them."""
    for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8"):
        network = ip_network(text)
        assert danger(network[0], ())
        assert danger(network[-1], ())
        assert danger(network[0] - 1, ()) is danger(network[-1] + 1, ()) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"schemes": "https"},
        {"schemes": ["ftp"]},
        {"ports": 443},
        {"ports": "443"},
        {"ports": ["443"]},
        {"ports": [443, 0]},
        {"networks": "10.0.0.0/8"},
        {"networks": ["10.0.0.1/8"]},
        {"networks": ["inside"]},
    ],
)
def test_a_guard_that_cannot_be(wrong: dict[str, object]) -> None:
    """A setting that would open or close something else than meant is refused."""
    with pytest.raises(ConfigurationError, match="xpected"):
        Guard(**wrong)  # type: ignore[arg-type]
