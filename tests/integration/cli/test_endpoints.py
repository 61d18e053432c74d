"""`mutirao endpoints …`: the whole life of one, and what bad input gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutirao.webhooks import new_secret
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="src/mutirao/testing/conformance/endpoints.py"
)

APP = "shop:app"
URL = "https://erp.example/hook?token=hide-me"


def test_a_life(shell: Shell, tmp_path: Path) -> None:
    """Put with a secret from a file, listed without it, rotated, held, tried, sent to, removed."""
    secret = tmp_path / "secret"
    secret.write_text(f"{new_secret()}\n")
    two = ("--unsigned", "--signer", "hub")
    put = ("endpoints", "put", APP, "erp", URL, "order.*", "invoice.paid")
    assert "new_secret" in shell.run(*put).stderr
    assert "one of --secret-file, --signer and --unsigned" in shell.refused(2, *put, *two)
    assert "tenant has 10000" in shell.refused(1, *put, "--unsigned", "--tenant", "t" * 10_000)
    assert shell.ok(*put, "--secret-file", secret) == "endpoint erp is in force\n"
    one = ("endpoints", "put", APP, "erp", URL, "order.*", "--order-by", "id", "--retry", "5s,1h")
    shell.ok(*one, "--when-dead", "stop")
    [found] = shell.json("endpoints", "list", APP)
    assert (found["order_by"], found["when_dead"], found["retry"]) == ("id", "stop", [5, 3_600])
    shell.ok(*put, "--rate", 5, "--tenant", "acme")
    secret.write_text(new_secret())
    told = shell.ok("endpoints", "rotate", APP, "erp", "--secret-file", secret)
    assert told == "endpoint erp has another secret\n"
    [found] = shell.json("endpoints", "list", APP)
    assert (found["topics"], found["rate"]) == (["order.*", "invoice.paid"], 5.0)
    assert (found["tenant"], found["signed"]) == ("acme", "standard")
    for word in ("whsec", "hide-me"):
        assert word not in shell.ok("endpoints", "show", APP, "erp") + str(found)
    assert shell.json("endpoints", "pause", APP, "erp") == {"paused": "erp"}
    assert "paused" in shell.ok("endpoints", "list", APP)
    shell.ok("endpoints", "resume", APP, "erp")
    assert shell.ok("endpoints", "probe", APP, "erp") == "endpoint erp has no open breaker\n"
    assert shell.json("endpoints", "test", APP, "erp")["task"] == "mutirao.webhook"
    assert shell.json("endpoints", "replay", APP, "erp", "--after", "2h") == {"replayed": []}
    shell.ok("endpoints", "remove", APP, "erp")
    assert shell.ok("endpoints", "list", APP) == "no endpoints\n"
    assert "no endpoint is called 'erp'" in shell.run("endpoints", "pause", APP, "erp").stderr
