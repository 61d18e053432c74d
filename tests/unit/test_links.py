"""Links to elsewhere: no test has a network, so none is followed; each is one that can be right."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from tests.support.spelling import pages

# The places that links lead to. Add one after you have opened it in a browser.
KNOWN = {
    "datatracker.ietf.org",
    "docs.celeryq.dev",
    "docs.djangoproject.com",
    "docs.pydantic.dev",
    "docs.temporal.io",
    "dramatiq.io",
    "github.com",
    "hexdocs.pm",
    "huey.readthedocs.io",
    "keda.sh",
    "pgqueuer.readthedocs.io",
    "procrastinate.readthedocs.io",
    "pypi.org",
    "python-rq.org",
    "riverqueue.com",
    "www.postgresql.org",
    "www.rfc-editor.org",
    "www.standardwebhooks.com",
    "www.w3.org",
}
OURS = {"127.0.0.1", "localhost"}  # what the reader has started
_LINK = re.compile(r"\]\(\s*(https?:[^)\s]*)|(?<![\w(])<?(https?://[^\s|)>]+)")


def wrong_in(text: str) -> list[str]:
    """Return the links of a page that cannot be right."""
    prose = re.sub(r"^ *```.*?^ *```|`[^`]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    return [link for link in map(_of, _LINK.findall(prose)) if not can_be_right(link)]


def can_be_right(link: str) -> bool:
    """Tell whether it is https to a place that is known, or leads to the reader's own machine."""
    parts = urlsplit(link)
    if parts.hostname in OURS or f"{parts.hostname}".endswith(".example.com"):
        return True
    plain = re.fullmatch(r"[\w/.~%#=&?+:-]*", f"{parts.path}?{parts.query}#{parts.fragment}")
    return parts.scheme == "https" and parts.netloc in KNOWN and plain is not None


def _of(found: tuple[str, str]) -> str:
    return found[0] or found[1].rstrip(".,;:")


def test_links_to_elsewhere_can_be_right() -> None:
    """Each is https, whole, and leads to a place that somebody has looked at."""
    wrong = {page.name: wrong_in(page.read_text(encoding="utf-8")) for page in pages()}
    assert {name: links for name, links in wrong.items() if links} == {}


@pytest.mark.parametrize(
    "text",
    [
        "[a](http://keda.sh)",
        "[a](https://kedda.sh)",
        "See https://user@keda.sh.",
        "<https://keda.sh/a`b>",
    ],
)
def test_a_link_that_cannot_be_right_is_noticed(text: str) -> None:
    """The test above can fail."""
    assert wrong_in(text)
