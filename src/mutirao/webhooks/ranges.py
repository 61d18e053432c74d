"""Addresses that webhooks are not sent to, after the registries of IANA (RFC 6890 and later).

An own table, because `ipaddress` of different Python versions differs in what is private or global.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = {
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google, DigitalOcean, OpenStack, Oracle
        "169.254.169.253",  # AWS: the resolver
        "169.254.170.2",  # AWS: tasks
        "169.254.170.23",  # AWS: pods
        "169.254.0.23",  # Tencent
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure: a public address that the host answers
        "192.0.0.192",  # Oracle, earlier
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
    )
}

_REFUSED = {
    "this network": ["0.0.0.0/8"],
    "unspecified": ["::/128"],
    "loopback": ["127.0.0.0/8", "::1/128"],
    "private": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
    "link-local": ["169.254.0.0/16", "fe80::/10"],
    "site-local": ["fec0::/10"],
    "shared by carriers (CGNAT)": ["100.64.0.0/10"],
    "reserved for protocols": ["192.0.0.0/24"],
    "for documentation": ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"],
    "for documentation, too": ["3fff::/20"],
    "for benchmarks": ["198.18.0.0/15", "2001:2::/48"],
    "multicast": ["224.0.0.0/4", "ff00::/8"],
    "broadcast": ["255.255.255.255/32"],
    "reserved": ["240.0.0.0/4"],
    "IPv4-mapped": ["::ffff:0:0/96"],
    "IPv4-translated": ["::ffff:0:0:0/96"],
    "IPv4-compatible": ["::/96"],
    "NAT64": ["64:ff9b::/96", "64:ff9b:1::/48"],
    "6to4": ["2002::/16", "192.88.99.0/24"],
    "Teredo": ["2001::/32"],
    "for protocols of IPv6": ["2001::/23"],
    "of the former 6bone": ["3ffe::/16"],
}
_TABLE = [(ip_network(text), name) for name, texts in _REFUSED.items() for text in texts]
_GLOBAL = IPv6Network("2000::/3")
_BEHIND = [  # IPv4 in the last 32 bits
    IPv6Network(text)
    for text in ("::ffff:0:0/96", "::ffff:0:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48")
]


def danger(address: Address, allowed: Collection[Network]) -> str | None:
    """Return why an address must not be connected to, or None if it may be.

    Parameters:
        allowed: networks that may be called whatever they are; an address of a cloud's metadata
            only if it is named by itself (`/32`, `/128`). An IPv4 address inside an IPv6 address
            must be allowed as well.
    """
    if address in METADATA and ip_network(address) not in allowed:
        return "an address of a cloud's metadata"
    if any(address in network for network in allowed):
        inner = embedded(address)
        return danger(inner, allowed) if inner is not None else None
    for network, name in _TABLE:
        if address in network:
            return name
    if isinstance(address, IPv6Address) and address not in _GLOBAL:
        return "not of the global unicast addresses"
    return None


def embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address to which a gateway would forward packets to `address`."""
    if isinstance(address, IPv4Address) or int(address) < 2:
        return None
    if any(address in network for network in _BEHIND):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else None)
