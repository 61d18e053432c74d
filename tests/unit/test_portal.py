"""What a synchronous face made by `blocking` takes, returns and says of itself."""

from __future__ import annotations

import inspect
import threading

import pytest

from mutirao.client.portal import Portal, blocking


class Client:
    """Doubles numbers in its portal's loop."""

    def __init__(self) -> None:
        self._portal = Portal()

    async def adouble(self, number: int, *, times: int = 1) -> tuple[int, str]:
        """Double a number; return it and the thread.

        Raises:
            ValueError: it is negative.
        """
        if number < 0:
            raise ValueError(number)
        return number * 2**times, threading.current_thread().name

    double = blocking(adouble)


def test_it_runs_in_the_portal_and_raises_the_same() -> None:
    client = Client()
    try:
        assert client.double(3, times=2) == (12, "mutirao-portal")
        with pytest.raises(ValueError, match="-1"):
            client.double(-1)
    finally:
        client._portal.close()


def test_it_says_what_it_is() -> None:
    assert not inspect.iscoroutinefunction(Client.double)
    assert (Client.double.__name__, Client.double.__qualname__) == ("double", "Client.double")
    assert inspect.signature(Client.double) == inspect.signature(Client.adouble)
    assert (inspect.getdoc(Client.double) or "").startswith(
        "Double a number; return it and the thread, from synchronous code.\n\nRaises:"
    )
