"""The ending of a connection from another thread, without a message to the server."""

import socket
from os import dup


def shut_down(file: int) -> None:
    """Shut a socket down: whoever waits for an answer, in whatever thread, is told at once."""
    copy = dup(file)  # closing it leaves the driver's own open
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=copy) as held:
        held.shutdown(socket.SHUT_RDWR)
