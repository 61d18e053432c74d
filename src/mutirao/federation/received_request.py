"""A received request, and the checks that both kinds of signatures have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from mutirao.errors import UnverifiedActivity
from mutirao.federation.keys import PublicKey

Version = Literal["rfc9421", "cavage"]
SKEW = 30.0  # seconds by which this clock and the signer's may differ, for a signature with an end
WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request, with its headers by names in small letters."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class RequestSignature(Protocol):
    """A signature that says enough, and is of now."""

    version: Version
    key_id: str

    def fits(self, key: PublicKey) -> bool:
        """Return whether it was made with this key over this request and body."""
        ...


def check_moment(at: float | None, tolerance: float, now: float) -> None:
    """Refuse a signature that was made at another time; UnverifiedActivity."""
    if at is None or not abs(now - at) <= tolerance:
        moment = "no moment" if at is None else f"a moment {now - at:.0f} s before now"
        raise UnverifiedActivity(
            f"the signature is of {moment}; expected {tolerance:g} s at most. Check the clock, or"
            " refuse it: it may be a repetition"
        )


def check_expires(at: float | None, now: float) -> None:
    """Refuse a signature that has expired; None is for one that does not; UnverifiedActivity."""
    if at is not None and not at >= now - SKEW:
        raise UnverifiedActivity(
            f"the signature has expired {now - at:.0f} s ago; expected {SKEW:g} s at most, for"
            " clocks that differ"
        )


def checked_id(id: object) -> str:
    """Return the id of a key; UnverifiedActivity if it cannot be one."""
    if not isinstance(id, str) or not 0 < len(id) <= 2_048:
        raise UnverifiedActivity(f"the key's id is {id!r:.200}; expected a URL")
    return id
