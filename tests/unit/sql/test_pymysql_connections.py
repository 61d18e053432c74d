"""What connections of PyMySQL have in common."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from mutirao.sql.connections.engines import Engines

URL = "mysql+pymysql://nobody@127.0.0.1/none"


def context(url: str) -> ssl.SSLContext | None:
    """Return the TLS of a connection that an engine is about to open.

    None: it has none; before 1.2 PyMySQL uses TLS only where the URL asks for it.
    """
    dialect = Engines(url).sync().dialect
    args, parameters = dialect.create_connect_args(Engines(url).url)
    made: Any = dialect.connect(*args, **parameters, defer_connect=True)
    return getattr(made, "ctx", None)


def test_all_share_what_tls_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would read 140 certificates, and keep them: 0.9 MB, and 18 ms."""
    first = context(URL)
    monkeypatch.setattr(ssl, "create_default_context", None)  # nothing more is read

    assert context(URL) is first
    # As PyMySQL has it where the URL says nothing.
    assert first is None or first.verify_mode is ssl.CERT_NONE


def test_one_that_says_how_to_verify_has_its_own() -> None:
    """Its files may be others at the next connection."""
    url = f"{URL}?ssl_verify_identity=true&ssl_cipher=DEFAULT"

    assert context(url) is not context(url)
    assert context(url) is not context(URL)
