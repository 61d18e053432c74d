"""Endpoints: what cannot be one, and how long it waits between attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mutirao.errors import InvalidEndpoint, InvalidSubscription, MutiraoError, WebhookFailed
from mutirao.model.jobs.waits import LONGEST_WAIT, MAX_WAITS
from mutirao.model.topics.subscriptions import WhenDead
from mutirao.model.webhooks.endpoints import Endpoint
from mutirao.webhooks.deliveries import SCHEDULE, SPREAD, wait_of


def endpoint(**terms: Any) -> Endpoint:
    """Return an endpoint of one topic."""
    return Endpoint(**{"id": "erp", "url": "https://erp.example/", "topics": ("a.*",), **terms})


@pytest.mark.parametrize(
    ("terms", "error", "says"),
    [
        ({"order_by": "a..b"}, InvalidSubscription, "order_by has a field 'a..b'"),
        ({"order_by": "a", "topics": ("a", "b")}, InvalidEndpoint, "and 2 topics; give"),
        ({"order_by": "a", "when_dead": "halt"}, InvalidEndpoint, "give 'stop' or 'continue'"),
        ({"when_dead": "stop"}, InvalidEndpoint, "order_by is not given"),
        ({"url": "https://a:65536/"}, InvalidEndpoint, "a port of 1 to 65,535"),
        ({"url": "https://a:0"}, InvalidEndpoint, "a port of 1 to 65,535"),
        ({"url": "https://./"}, InvalidEndpoint, "the URL is 'https://./'"),
        ({"url": "https://a..b/"}, InvalidEndpoint, "the URL is"),
        ({"url": "https://%41/"}, InvalidEndpoint, "the URL is"),
        ({"headers": [("X-A", "b")]}, InvalidEndpoint, "the headers are of type list; give names"),
        ({"redirects": 1.5}, InvalidEndpoint, "redirects is 1.5; give 0 to 5"),
        ({"concurrency": 2.0}, InvalidEndpoint, "concurrency is 2.0; give a whole number"),
        ({"accepts_3xx": "no"}, InvalidEndpoint, "accepts_3xx is 'no'"),
        ({"signer": 7}, InvalidEndpoint, "signer 7; give"),
        ({"signer": ""}, InvalidEndpoint, "the name of an @app.signer"),
        ({"retry": "5s"}, InvalidEndpoint, "give seconds in a list"),
        ({"retry": 5}, InvalidEndpoint, "give seconds in a list"),
        ({"retry": [5, -1]}, InvalidEndpoint, "has 2 waits, of which one is -1; give up to 100"),
        ({"retry": [LONGEST_WAIT + 1]}, InvalidEndpoint, "of which one is 2592001"),
        ({"retry": [float("nan")]}, InvalidEndpoint, "one is nan"),
        ({"retry": [1] * (MAX_WAITS + 1)}, InvalidEndpoint, "has 101 waits; give"),
    ],
)
def test_refused(terms: dict[str, Any], error: type[MutiraoError], says: str) -> None:
    """It says what to give."""
    with pytest.raises(error, match=says):
        endpoint(**terms)


def test_an_order() -> None:
    """A dead one stops those after it, unless it is said otherwise."""
    assert endpoint(order_by="id").when_dead is WhenDead.STOP
    assert endpoint(order_by="id", when_dead="continue").when_dead is WhenDead.CONTINUE


def test_waits() -> None:
    """Its own or those of the standard, spread, and as long as the server asks for."""
    own = endpoint(retry=[timedelta(minutes=1), 5])
    assert (own.retry, own.max_attempts, endpoint().max_attempts) == ((60.0, 5), 3, None)
    for waits, error in ((SCHEDULE, OSError()), ((60.0, 5), WebhookFailed("", None, own.retry))):
        for attempt, wait in enumerate(waits, 1):
            assert abs(wait_of(attempt, error) - wait) <= wait * SPREAD
    assert wait_of(2, WebhookFailed("", 90.0, own.retry)) == 90.0
    # Deliveries that were made before may have more attempts than there are waits now.
    assert wait_of(9, WebhookFailed("", None, own.retry)) <= 5 * (1 + SPREAD)
    assert wait_of(1, WebhookFailed("", None, ())) >= SCHEDULE[0] * (1 - SPREAD)
