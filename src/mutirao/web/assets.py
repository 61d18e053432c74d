"""The files that browsers keep: their URLs have a digest, so that a new one has a new URL."""

from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from starlette.responses import Response

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_NAMES = ("dashboard.css", "dashboard.js", "icon.svg", "suggesting.js")
FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        """The part of its URL that changes with its content."""
        return sha256(self.content).hexdigest()[:16]


def load() -> dict[str, Asset]:
    """Return all files by their names."""
    folder = files("mutirao.web") / "assets"
    return {
        name: Asset((folder / name).read_bytes(), _TYPES[name.rpartition(".")[2]])
        for name in _NAMES
    }


def answer(known: dict[str, Asset], digest: str, name: str) -> Response | None:
    """Return a file; None if there is none of that name. One of another digest is not kept."""
    asset = known.get(name)
    if asset is None:
        return None
    kept = {"cache-control": FOREVER if asset.digest == digest else "no-cache"}
    return Response(asset.content, media_type=asset.media_type, headers=kept)
