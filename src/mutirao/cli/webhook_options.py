"""The options of commands that deliver webhooks: which URLs their guard allows."""

from collections.abc import MutableMapping
from typing import Any

import click

from mutirao.cli.options import Command, Listed, names_option, option
from mutirao.model.webhooks.webhook_attempts import WebhookSettings


def ports(text: str) -> str:
    """Return a list of ports, 443,8000-8999, unchanged, if it is valid."""
    _ports(text)
    return text


def webhook_options(command: Command) -> Command:
    """Add the options of `webhook_settings` to a command."""
    for decorate in reversed((
        names_option("--webhook-schemes", default="https",
                     help="Schemes of the URLs that are called: https, or https,http."),
        option("--webhook-ports", type=Listed("ports", ports), default=("80,443",), multiple=True,
               callback=lambda ctx, param, given: ",".join(given),
               help="Ports that are called, such as 443,8000-8999. May be repeated."),
        names_option("--webhook-networks",
                     help="Networks that are called although they are not public: 10.1.0.0/16."),
        option("--webhook-ca", type=click.Path(exists=True, dir_okay=False),
               help="A file of certificates to trust besides the system's."),
    )):  # fmt: skip
        command = decorate(command)
    return command


def webhook_settings(given: MutableMapping[str, Any]) -> WebhookSettings:
    """Return the settings from the options, and remove these from the given ones."""
    return WebhookSettings(
        schemes=given.pop("webhook_schemes"),
        ports=_ports(given.pop("webhook_ports")),
        networks=given.pop("webhook_networks") or (),
        ca=given.pop("webhook_ca"),
    )


def _ports(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        try:
            some = range(int(first), int(last or first) + 1)
        except ValueError:
            some = range(0)
        if not some or some[0] < 1 or some[-1] > 65_535:
            raise click.BadParameter(f"{part!r} is no port; write 443, or 8000-8999")
        found += some
    return tuple(found)
