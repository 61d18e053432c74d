"""The options of queues at SQS, and the boto3 clients made by them."""

from dataclasses import dataclass, field
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from mutirao.errors import ConfigurationError
from mutirao.transports.environment import check_kinds
from mutirao.transports.sqs.calls import LONGEST_VISIBILITY
from mutirao.transports.sqs.names import FIFO

LEAST_RECEIVES, MAX_RECEIVES = 5, 100  # hand-outs after which SQS itself gives a message up
LONGEST_WAIT = 20  # seconds of a long poll
CALL_TIMEOUT = 10  # seconds


@dataclass(frozen=True)
class SqsOptions:
    """The options of `SQS`. Raises ConfigurationError if an option is out of range."""

    name: str = "{queue}"
    fifo: bool = False
    visibility: int = 30
    wait: int = LONGEST_WAIT
    max_runtime: float | None = None
    max_receives: int = MAX_RECEIVES
    tenant_groups: bool = True
    bucket: str | None = None
    region: str | None = None
    endpoint_url: str | None = field(default=None, repr=False)  # it may have a password

    def __post_init__(self) -> None:
        """Check types and bounds."""
        check_kinds(self)
        if not self.name:
            raise ConfigurationError('name is ""; give the name of a queue at SQS')
        if self.max_runtime is not None and not self.max_runtime >= 1:
            raise ConfigurationError(f"max_runtime is {self.max_runtime}; give seconds, from 1")
        _check("visibility", self.visibility, 2, LONGEST_VISIBILITY)
        _check("wait", self.wait, 1, LONGEST_WAIT)
        _check("max_receives", self.max_receives, LEAST_RECEIVES, 1_000)


def whole(options: SqsOptions) -> SqsOptions:
    """Return options that are complete, if they do not contradict each other.

    Raises:
        ConfigurationError: the name is one of a queue that keeps an order, and `fifo` is False.
    """
    if options.name.endswith(FIFO) and not options.fifo:
        raise ConfigurationError(
            f"name is {options.name!r}, as SQS calls queues that keep an order; give fifo=True, or"
            f" leave {FIFO} out"
        )
    return options


def clients(session: Any, options: SqsOptions) -> tuple[Any, Any]:
    """Return the clients for short calls and for long polls."""
    made = session or Session()
    if not (options.region or made.region_name):
        raise ConfigurationError(
            "nothing says in which region of AWS the queues are: give SQS(region=…), or set"
            " MUTIRAO_SQS_REGION or AWS_DEFAULT_REGION"
        )
    long = _config(options.wait + CALL_TIMEOUT, {"total_max_attempts": 1})
    where = {"region_name": options.region, "endpoint_url": options.endpoint_url}
    try:
        return (
            made.client("sqs", config=_short(), **where),
            made.client("sqs", config=long, **where),
        )
    except (BotoCoreError, ValueError) as wrong:
        raise ConfigurationError(f"boto3 makes no client for SQS: {wrong}") from wrong


def s3_client(session: Any, options: SqsOptions) -> Any:
    """Return a client for S3. `endpoint_url` is of SQS: another S3 is named as boto3 has it."""
    try:
        return (session or Session()).client("s3", config=_short(), region_name=options.region)
    except (BotoCoreError, ValueError) as wrong:
        raise ConfigurationError(f"boto3 makes no client for S3: {wrong}") from wrong


def _short() -> Config:
    return _config(CALL_TIMEOUT, {"mode": "standard", "total_max_attempts": 3})


def _config(read_timeout: int, retries: dict[str, Any]) -> Config:
    return Config(
        connect_timeout=5, tcp_keepalive=True, max_pool_connections=64, read_timeout=read_timeout,
        retries=retries,
    )  # fmt: skip


def _check(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigurationError(f"{what} is {value!r}; give a whole number, {least} to {most}")
