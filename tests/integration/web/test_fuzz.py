"""Whatever is sent, no answer is an error of the server, and none takes a second.

A part of the inputs each time; MUTIRAO_FUZZ says how many (100,000 take a quarter of an hour), and
MUTIRAO_SEED which.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Iterator
from time import process_time
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import httpx2
import pytest

from mutirao.model.filters.qualifiers import QUALIFIERS
from mutirao.web.actions import COMMANDS
from mutirao.web.api.operations import OPERATIONS
from mutirao.web.pages import PAGES
from tests.integration.web.conftest import ROLES, SAME, Browser
from tests.integration.web.test_actions import FORMS
from tests.support.dashboard import SECRET
from tests.support.repeats import Share

log = logging.getLogger(__name__)
GIVEN, USUAL = "MUTIRAO_FUZZ", 1_200
LONGEST = 1.0  # seconds of this process, which has the dashboard and the database
PIECES = (
    "",
    " ",
    "0",
    "1",
    "7",
    "-1",
    "9" * 19,
    "9" * 40,
    "1e9",
    "0x7",
    "٣",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "[" * 500,
    '{"a":' * 300,
    '"',
    "\\",
    '"\\',
    ":",
    "::",
    "-",
    "--",
    "*",
    "*****",
    "**********",
    ",",
    ",,",
    "..",
    "1..",
    "..9",
    ">",
    ">=3",
    "<-1",
    "2h",
    "9d",
    "1e99d",
    "2026-11-27",
    "2026-13-99T25:61:61Z",
    "dead",
    "mail",
    "state",
    "arg.",
    'arg."a b".c:1',
    "%",
    "%00",
    "\x00",
    "\ud800",
    "\r\n",
    "\u202e",
    "é",
    "🚣" * 50,
    "a" * 300,
    "a" * 2_100,
    "( " * 900,
    "state:dead " * 31,
    "id:" + ",".join(map(str, range(1, 60))),
    "../../etc/passwd",
    "//evil.example",
    "<script>",
    "{{7*7}}",
    "${7*7}",
    "' OR 1=1 --",
    "\t",
    "x" * 20_000,
)
NAMES = ("q", "at", "after", "before", "task", "from", "queue", "id", "back", "action", "expected",
         "priority", "delay", "columns", "message", "arg.to", "filter", "cursor", "size",
         "most")  # fmt: skip


class Sent(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Fuzz:
    """Makes requests by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def one(self) -> Sent:
        """Return a request: of a page, of a form, or of the API."""
        made = self.chance.choice((self._page, self._page, self._form, self._api))()
        headers = {"x-role": self.chance.choice([*ROLES]), **made.headers}
        if self.chance.random() < 0.1:
            name = self.chance.choice(("accept-language", "cookie", "if-none-match", "range"))
            headers[name] = quote(self._text()[:3_000].encode("utf-8", "replace"), safe=" ;=,")
        return made._replace(headers=headers)

    def _text(self) -> str:
        how = self.chance.random()
        if how < 0.4:
            return self.chance.choice(PIECES)
        if how < 0.8:
            term = f"{self.chance.choice([*QUALIFIERS])}:{self.chance.choice(PIECES)}"
            return f"{self.chance.choice(('', '-', ' '))}{term} {self.chance.choice(PIECES)}"
        return "".join(self.chance.choice(PIECES) for _ in range(self.chance.randint(2, 6)))

    def _coded(self, text: str) -> str:
        coded: str = quote_plus(text.encode("utf-8", "surrogatepass"))
        return coded

    def _query(self, names: tuple[str, ...] = NAMES) -> str:
        pairs = [
            f"{self.chance.choice(names)}={self._coded(self._text())}"
            for _ in range(self.chance.randint(0, 4))
        ]
        return "&".join(pairs)[:60_000]

    def _path(self, path: str) -> str:
        for name in ("id", "name"):
            value = self._coded(self._text())[:3_000] if self.chance.random() < 0.7 else "1"
            path = path.replace(f"{{{name}}}", value or "1")
        return path

    def _page(self) -> Sent:
        return Sent("GET", f"{self._path(self.chance.choice(PAGES).path)}?{self._query()}", {}, b"")

    def _form(self) -> Sent:
        name = self.chance.choice([*COMMANDS, "none"])
        usual = dict(FORMS.get(name, {}))
        for key in [*usual, *NAMES]:
            if self.chance.random() < 0.15:
                usual[key] = self._text()
        body = "&".join(f"{key}={self._coded(str(value))}" for key, value in usual.items())
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return Sent("POST", f"/act/{name}", {**SAME, **kind}, body.encode())

    def _api(self) -> Sent:
        its = self.chance.choice(OPERATIONS)
        path = f"/api/v1{self._path(its.path)}?{self._query()}"
        body = json.dumps(self._value(3)).encode("utf-8", "surrogatepass")
        if self.chance.random() < 0.2:
            body = self._text().encode("utf-8", "surrogatepass")
        kind = {"content-type": self.chance.choice(("application/json", "text/plain"))}
        return Sent(its.method, path, {**SAME, **kind}, body if its.acts else b"")

    def _value(self, deep: int) -> Any:
        if deep and self.chance.random() < 0.7:
            keys = ("action", "ids", "filter", "expected", "change", "task", "args", "queue", "key")
            return {self.chance.choice(keys): self._value(deep - 1)
                    for _ in range(self.chance.randint(0, 4))}  # fmt: skip
        return self.chance.choice(
            (self._text(), 7, -1, 10**30, 0.5, None, True, ["1", 2], [], "cancel", "send_receipt")
        )


def inputs(seed: int, number: int) -> Iterator[Sent]:
    """Yield so many requests."""
    fuzz = Fuzz(seed)
    for _ in range(number):
        yield fuzz.one()


async def asked(browser: Browser, sent: Sent) -> tuple[httpx2.Response, float]:
    """Send a request; return the answer, and the seconds of this process that it took."""
    started = process_time()
    answer = await browser.client.request(
        sent.method, sent.path, headers=sent.headers, content=sent.body
    )
    return answer, process_time() - started


@pytest.mark.filterwarnings("ignore:Setting per-request cookies")
async def test_whatever_is_sent(browser: Browser, share: Share) -> None:
    """It is answered at once, never by an error of the server, and without a secret."""
    seed = int(os.environ.get("MUTIRAO_SEED") or random.randrange(2**32))
    number = int(os.environ.get(GIVEN) or share(USUAL))
    for place, sent in enumerate(inputs(seed, number)):
        if GIVEN in os.environ and place % 1_000 == 0:
            log.warning("%s of %s inputs, seed %s", place, number, seed)
        try:
            answer, took = await asked(browser, sent)
        except httpx2.InvalidURL:
            continue
        said = (seed, sent.method, sent.path[:300], sent.headers, sent.body[:300])
        assert answer.status_code < 500, (said, answer.text[:500])
        assert took <= LONGEST, said
        assert SECRET not in answer.text, said
    await browser.site.background.all_done()
