"""What a stage is where the database is a server: the same, whichever server it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ClassVar, Protocol

from tests.faults.kit.broker import Broker
from tests.faults.kit.proxy import Proxy
from tests.support.servers import PrivateServer

NAME = ROLE = PASSWORD = "ordeal"
PATIENCE = 30.0  # seconds


class Closeable(Protocol):
    """A connection."""

    def close(self) -> Any:
        """End it."""


class Carried:
    """The part of a stage that is a broker, if there is one."""

    broker: Broker | None = None


class ServerStage(Carried, ABC):
    """A server of our own. Workers reach it through `proxy`, we through `way`.

    What its kinds have in common, so that their troubles are the same. `away`: what connecting and
    asking raise while it is away.
    """

    away: ClassVar[type[Exception]]
    worker_url: str
    own_url: str
    server: PrivateServer

    def __init__(self, proxy: Proxy, way: Proxy) -> None:
        self.proxy, self.way = proxy, way

    @abstractmethod
    def workers_sessions(self) -> list[int]:
        """Return the numbers of the sessions that serve workers."""

    @abstractmethod
    def terminate(self, share: float = 1.0) -> int:
        """End a share of the workers' sessions; return how many there were."""

    @abstractmethod
    def cancelling(self) -> AbstractContextManager[Callable[[], object]]:
        """Lend what cancels the statements that workers' sessions carry out."""

    @abstractmethod
    def tables(self) -> list[str]:
        """Return our tables."""

    @abstractmethod
    def table_locked(self, table: str) -> AbstractContextManager[object]:
        """Lock a table as a migration does."""

    @abstractmethod
    def rows_locked(self, most: int) -> AbstractContextManager[str]:
        """Lock rows of jobs that run; say how many."""

    @abstractmethod
    def read_only(self) -> AbstractContextManager[object]:
        """Let workers write nothing."""

    @abstractmethod
    def limit(self, most: int | None) -> None:
        """Let workers have so many connections, None: as many as they want, from now on."""

    @abstractmethod
    def let_in(self, allowed: bool) -> None:
        """Let workers log in, or not, from now on."""

    @abstractmethod
    def somebody(self) -> AbstractContextManager[Callable[[], Closeable]]:
        """Lend what connects a user who has no privileges. Raises `away` where there is no room."""


@contextmanager
def ways_to(server: PrivateServer) -> Iterator[tuple[Proxy, Proxy]]:
    """Lend two ways to a server: the workers', and our own."""
    with ExitStack() as stack:
        yield stack.enter_context(Proxy(server.port)), stack.enter_context(Proxy(server.port))
