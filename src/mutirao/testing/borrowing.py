"""A store on the caller's connection, inside the transaction that is open there."""

from mutirao.errors import WrongState
from mutirao.ports import Store
from mutirao.ports.program import ProgramConnections
from mutirao.sql.connections.borrowed import BorrowedEngines
from mutirao.sql.drivers.borrowing import Borrowed
from mutirao.sql.store.jobs import SqlStore
from mutirao.testing.memory import InCallersThread, MemoryStore


class BorrowingStore(SqlStore):
    """A `mutirao.ports.Store` on one connection, which its caller commits or rolls back.

    A transaction of other stores is a savepoint here. For one thread, and one call at a time.

    Parameters:
        own: the application's store, which knows the database and the schema.
        conn: the connection or session.

    Raises:
        UnsupportedConnection: it is none that is accepted, or connected to another product.
        WrongState: it has no transaction; or the store has no tables in a database.
    """

    def __init__(self, own: Store, conn: object) -> None:
        if not isinstance(own, SqlStore) or isinstance(own, MemoryStore):
            raise WrongState(
                f"jobs are drained on conn=, but this application keeps them in a"
                f" {type(own).__name__} now; leave conn= out, or call drain outside of capture"
            )
        engines, program = own.engines, own.program
        super().__init__(engines.database, schema=engines.schema)
        self.borrowed = Borrowed(conn, engines.dialect.intake.database)
        self._borrowing = BorrowedEngines(engines.database, engines.schema, self.borrowed)
        self.engines = self._borrowing
        self._run_by(InCallersThread(self.engines))
        self.program = program

    def _writes_through(self) -> ProgramConnections | None:
        """Return None: jobs that are enqueued meanwhile go through the connection, too."""
        return None

    def clone(self, connections: int = 1, *, within: float | None = None) -> "BorrowingStore":
        """Return this store: there is one connection."""
        return self

    async def close(self) -> None:
        """Leave the connection to its caller, open and in its transaction."""
        self._borrowing.put_back()
        self.borrowed.give_back()
