"""A client of the HTTP API, for commands without the database: `--api`, `--token-file`."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from mutirao.errors import ConfigurationError, MutiraoError, StoreUnavailable
from mutirao.model import row_json
from mutirao.model.display import without_password

WITHIN = 60.0  # seconds that an answer may take
LARGEST = 64 << 20  # bytes of an answer
_IDS = frozenset({"id", "job", "worker", "graph", "redrive_of", "on_dead_of", "last_job"})


class ApiRefused(MutiraoError):
    """The API has refused something; the text is its answer."""


class ApiClient:
    """The API of a dashboard.

    Parameters:
        url: the address of the dashboard: `https://jobs.example.com/jobs`.
        token: the token of the caller.

    Raises:
        ConfigurationError: it is no such URL, or others could read the token on its way.
    """

    def __init__(self, url: str, token: str) -> None:
        parts, shown = _parts(url), repr(without_password(url))
        if parts is None:
            raise ConfigurationError(
                f"--api is {shown}; give where the dashboard is, such as https://example.com/jobs,"
                " and the token in --token-file"
            )
        is_here = _is_this_machine(parts.hostname or "")
        if parts.scheme == "http" and token and not is_here:
            raise ConfigurationError(
                f"--api is {shown}, and on the way there others could read the token; give https"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigurationError(
                "--token-file has more than the one line of a token, or characters that none has"
            )
        self._base = f"{url.rstrip('/').removesuffix('/api/v1')}/api/v1"
        self._token = token
        # A proxy is another machine, which can read requests by HTTP.
        direct = [urllib.request.ProxyHandler({})] if is_here else []
        self._opener = urllib.request.build_opener(_NoRedirects, *direct)

    @classmethod
    def of(cls, url: str, token_file: Path | None) -> "ApiClient":
        """Return the API with the token in a file."""
        try:
            return cls(url, "" if token_file is None else token_file.read_text().strip())
        except (OSError, UnicodeDecodeError) as unfit:
            why = getattr(unfit, "strerror", None) or "it is no text"
            raise ConfigurationError(f"--token-file cannot be read: {why}") from None

    def get(self, path: str, **query: object) -> Any:
        """Send a GET request; see `ask` for the errors."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return self.ask("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a POST request; see `ask` for the errors."""
        return self.ask("POST", path, {} if body is None else body)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of the API, with ids as numbers and moments as datetimes.

        Raises:
            ApiRefused: the API refuses.
            StoreUnavailable: there is no answer, or it is not one of the API.
        """
        data = None if body is None else json.dumps(body, default=_spelled).encode()
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(  # noqa: S310 (http and https only)
            self._base + path, data, headers, method=method
        )
        try:
            with self._opener.open(request, timeout=WITHIN) as answer:
                return _read(answer.read(LARGEST))
        except urllib.error.HTTPError as refused:
            with refused:
                raise _refusal(refused, self._base) from None
        except (OSError, HTTPException) as error:
            raise StoreUnavailable(f"the API at {self._base} does not answer: {error}") from error


def in_path(name: str) -> str:
    """Return a name in the form for a path."""
    return quote(name, safe="")


def record(found: Mapping[str, Any]) -> Any:
    """Return an object with the fields of an answer as its attributes."""
    return SimpleNamespace(**found)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because the request has the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _ApiObject(dict[str, Any]):
    """An object of an answer; a missing field means that the API has not answered."""

    def __missing__(self, name: str) -> Any:
        raise StoreUnavailable(f"the answer is none of the API: it has no {name!r}")


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it is none, or has more than an address."""
    try:
        found = urlsplit(url)
        well = found.scheme in ("http", "https") and found.hostname and found.port != 0
    except ValueError:
        return None
    return found if well and not (found.query or found.fragment or "@" in found.netloc) else None


def _read(content: bytes) -> Any:
    try:
        found = _typed(row_json.read_object(content, "the answer"))
    except (row_json.UnreadableRow, ValueError, RecursionError) as error:
        raise StoreUnavailable(f"the answer is none of the API: {error}") from None
    return found


def _typed(value: Any, name: str = "") -> Any:
    if isinstance(value, list):
        return [_typed(each, name) for each in value]
    if isinstance(value, dict):
        kept = name in ("args", "metadata", "result", "payload", "change")  # of people
        return value if kept else _ApiObject({key: _typed(v, key) for key, v in value.items()})
    if isinstance(value, str) and name in _IDS | {"ids"} and value.isdecimal():
        return int(value)
    if isinstance(value, str) and (name.endswith("_at") or name in ("until", "last_tick")):
        return datetime.fromisoformat(value)
    return value


def _spelled(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _refusal(refused: urllib.error.HTTPError, base: str) -> MutiraoError:
    said: Any = row_json.shown(refused.read(100_000) or b"{}")
    told = said if isinstance(said, dict) else {}
    detail = str(told.get("detail") or told.get("title") or refused.reason)
    if refused.code == 401:
        return ConfigurationError(f"the API at {base} does not know the token: {detail}")
    if refused.code >= 500 or "type" not in told:
        return StoreUnavailable(f"the API at {base} answers {refused.code}: {detail}")
    return ApiRefused(detail)


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
