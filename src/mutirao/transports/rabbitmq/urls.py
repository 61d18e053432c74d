"""Checks URLs of brokers, and shows them without their passwords.

The client ignores parameters that it does not know, and takes 0 for a number that it cannot read: a
typing error would switch heartbeats off. So parameters are checked here.
"""

from urllib.parse import SplitResult, parse_qsl, urlsplit

from mutirao.errors import ConfigurationError
from mutirao.model.display import one_line, without_password

LONGEST_HEARTBEAT = 65_535  # seconds, in AMQP's 16 bits
NUMBERS = ("heartbeat", "timeout")  # seconds
PARAMETERS = (
    *NUMBERS, "cafile", "capath", "cadata", "certfile", "keyfile", "no_verify_ssl", "auth", "name",
)  # fmt: skip


def shown_url(url: str) -> str:
    """Return a URL without its password and parameters.

    Raises:
        ConfigurationError: it is none of AMQP, or has a parameter that the client does not know.
    """
    parts = _split(url)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        _check(name, value)
    port = f":{parts.port}" if parts.port else ""
    user = f"{parts.username}@" if parts.username else ""
    return without_password(f"{parts.scheme}://{user}{parts.hostname}{port}{parts.path}")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_rest = url.count("@") != ("@" in parts.netloc)  # a part of a password elsewhere
        if (
            parts.scheme in ("amqp", "amqps")
            and parts.hostname
            and parts.port != 0
            and not has_rest
        ):
            return parts
    except ValueError:
        pass
    raise ConfigurationError(
        "the URL of a RabbitMQ broker (or MUTIRAO_RABBITMQ_URL) must be"
        " amqp://user:password@host:port/vhost (amqps: TLS), with @ in a password or a parameter"
        " as %40, and / ? # in a password as %2F %3F %23"
    )


def _check(name: str, value: str) -> None:
    """Raise ConfigurationError for a parameter that there is not, or that has no such value."""
    if name not in PARAMETERS:
        raise ConfigurationError(
            f"the URL of a RabbitMQ broker has a parameter {one_line(name)!r}; those that it may"
            f" have are {', '.join(PARAMETERS)}"
        )
    if name in NUMBERS and not (value.isdecimal() and int(value) < LONGEST_HEARTBEAT):
        raise ConfigurationError(
            f"the URL of a RabbitMQ broker has {name}={one_line(value)!r}; give whole seconds below"
            f" {LONGEST_HEARTBEAT}"
        )
