"""Activities of ActivityStreams: their subjects, and which need not be sent any more.

Pure rules. `Redundant` is the supersede rule of deliveries: for two activities about one object to
one inbox, if no attempt of the older one has started. A started one may have arrived, and is sent.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mutirao.errors import InvalidActivity
from mutirao.model.jobs.job import MAX_KEY
from mutirao.model.keys.supersede import ACTIVITIES, Arguments, Redundancy, Supersede

PUBLIC = "https://www.w3.org/ns/activitystreams#Public"
PUBLIC_NAMES = {PUBLIC, "as:Public", "Public"}
LONGEST_URL = 2_048

_KEEP, _NEWER, _MERGE, _NEITHER = (
    Redundancy.KEEP,
    Redundancy.NEWER,
    Redundancy.MERGE,
    Redundancy.NEITHER,
)
# (older, newer): what remains. A merge has the older one's place in time. All others are kept.
REDUNDANT: Mapping[tuple[str, str], Redundancy] = {
    **ACTIVITIES,
    ("Update", "Update"): _MERGE,  # the newer one, but at the older time
    ("Delete", "Delete"): _NEWER,
    ("Add", "Add"): _MERGE,
    ("Remove", "Remove"): _MERGE,
    ("Like", "Undo"): _NEITHER,
    ("Announce", "Undo"): _NEITHER,
    ("Block", "Undo"): _NEITHER,
}
# Kinds after which an equal activity of a kind repeats what the inbox has received.
REPEATS: Mapping[str, frozenset[str]] = {
    "Update": frozenset({"Create", "Update"}),
    "Add": frozenset({"Add"}),
    "Remove": frozenset({"Remove"}),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an activity.

    Parameters:
        kind: its type: Create, Update, …
        object: the id of its object; of an Undo, the object of what is undone.
        target: of an Add or a Remove: the id of the collection; otherwise "".
    """

    kind: str
    object: str
    target: str


class Said(NamedTuple):
    """The last activity about an object that an inbox has accepted with 2xx.

    `kind` and `digest` are of the activity, `job` is the one that delivered it.
    """

    kind: str
    digest: str
    job: int


class Redundant(Supersede):
    """The rule for deliveries to one host about one object."""

    def judge(self, older: Arguments, newer: Arguments) -> Redundancy:
        """Return what remains of two deliveries; both, unless only kind and content differ."""
        alike = ("inbox", "object", "target", "sender")
        if any(older.get(name) != newer.get(name) for name in alike):
            return _KEEP
        before, now = older.get("activity"), newer.get("activity")
        if not isinstance(before, dict) or not isinstance(now, dict):
            return _KEEP
        if id_of(before.get("actor")) != id_of(now.get("actor")):
            return _KEEP
        left = REDUNDANT.get((str(older.get("kind")), str(newer.get("kind"))), _KEEP)
        if newer.get("kind") == "Undo" and id_of(now.get("object")) != before.get("id"):
            return _KEEP
        if left is _MERGE and newer.get("kind") == "Update":
            # If an Update only names its object, there is no content to replace the other one.
            return left if isinstance(now.get("object"), dict) else _KEEP
        return left

    def merged(self, older: Arguments, newer: Arguments) -> Arguments:
        """Return the newer delivery; as a Create, if the older one is."""
        if older["kind"] == newer["kind"]:
            return newer
        before = older["activity"]
        same = {name: before[name] for name in ("id", "type", "published") if name in before}
        return {**newer, "kind": older["kind"], "activity": {**newer["activity"], **same}}


RULE = Redundant(by="kind", rules=REDUNDANT)


def subject_of(activity: object) -> Subject:
    """Return the subject of an activity.

    Raises:
        InvalidActivity: it is no activity that can be delivered; the message says why.
    """
    if not isinstance(activity, Mapping):
        raise _invalid(f"it is a {type(activity).__name__}", "an object of JSON")
    kind = activity.get("type") or activity.get("@type")
    if isinstance(kind, list):  # JSON-LD may give several: the first one decides
        kind = kind[0] if kind else None
    if not isinstance(kind, str) or not 0 < len(kind) <= 100:
        raise _invalid(f"its type is {kind!r:.100}", "a text such as Create")
    actor, id = id_of(activity.get("actor")), activity.get("id")
    if actor is None:
        raise _invalid("it has no actor", "the id of the actor who does it")
    if id is not None and not isinstance(id, str):
        raise _invalid(f"its id is {id!r:.100}", "a URL, or none")
    about = activity.get("object")
    if kind == "Undo":
        if not isinstance(about, Mapping) or id_of(about.get("object")) is None:
            raise _invalid(
                "it undoes what it only names", "the whole activity that is undone, as its object"
            )
        about = about["object"]
    object = id_of(about) or actor  # an Arrive has none
    target = id_of(activity.get("target")) if kind in ("Add", "Remove") else None
    return Subject(kind, object, target or "")


def id_of(value: object) -> str | None:
    """Return the id of an object that is given as an id or as a whole; of several, the first."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, Mapping):
        value = value.get("id") or value.get("@id")
    return value if isinstance(value, str) and value else None


def host_of(inbox: str) -> str:
    """Return the name of the host of an inbox, without port, in small letters.

    Raises:
        InvalidActivity: it is no URL with a host.
    """
    name = None
    # urlsplit drops line breaks, and does not check a port before it is asked for.
    if len(inbox) <= LONGEST_URL and inbox.isprintable() and " " not in inbox:
        with suppress(ValueError):
            parts = urlsplit(inbox)
            name = parts.hostname if parts.port != 0 else None
    if not name or len(name) > 200 or not inbox.startswith(("https://", "http://")):
        raise _invalid(f"it is to go to {inbox!r:.200}", "URLs of inboxes")
    return name


def key_of(*parts: str) -> str:
    """Return a job's key made of some texts."""
    text = " ".join(parts)
    if len(text) <= MAX_KEY:
        return text
    end = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
    return f"{text[: MAX_KEY - len(end) - 1]} {end}"


def digest_of(activity: Mapping[str, Any]) -> str:
    """Return a digest of the object of an activity, whatever the order of its members."""
    text = json.dumps(activity.get("object"), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def repeats(kind: str, digest: str, last: Said | None) -> bool:
    """Return whether an activity only repeats the last one that arrived."""
    return last is not None and last.kind in REPEATS.get(kind, ()) and last.digest == digest


def _invalid(found: str, expected: str) -> InvalidActivity:
    return InvalidActivity(f"the activity cannot be delivered: {found}; expected {expected}")
