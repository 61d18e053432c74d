"""Amazon SQS as a transport, by boto3 in threads."""

from mutirao.errors import MissingDriver

try:
    import boto3 as _boto3  # noqa: F401 (makes the requests)
except ImportError as missing:
    raise MissingDriver(
        f"SQS needs the package {missing.name!r}, which is not installed. Install the extra that"
        " brings it: pip install 'mutirao[sqs]'"
    ) from missing

from mutirao.transports.sqs.transport import SQS

__all__ = ["SQS"]
