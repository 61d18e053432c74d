"""The INSERTs of graphs and of the inbox on MySQL and MariaDB."""

from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.enqueue.graphs import GraphStatements
from mutirao.sql.enqueue.inbox import InboxStatements
from mutirao.sql.schema.types import to_micros

_UTF8 = "CHARACTER SET utf8mb4"  # MySQL takes the session's otherwise
_COLUMNS = {
    "id": "bigint", "job": "bigint", "graph": "bigint", "depth": "int", "gate": "bigint",
    "stage": f"text {_UTF8}", "on_dead": f"varchar(20) {_UTF8}", "needs": f"longtext {_UTF8}",
    "compensate": f"longtext {_UTF8}", "unfinished": "int", "step": "bigint",
}  # fmt: skip


def _insert(table: str, **of: str) -> str:
    """Return the INSERT of the rows in a JSON array; `of`: a column, and its name there."""
    read = ", ".join(f"{name} {_COLUMNS[name]} PATH '$.{place}'" for name, place in of.items())
    names = ", ".join(of)
    return (
        f"INSERT INTO {table} ({names}) SELECT {names}"  # noqa: S608 (constants)
        f" FROM json_table(?, '$[*]' COLUMNS ({read})) given"
    )


_STEP = ("graph", "depth", "stage", "on_dead", "gate", "needs", "compensate")

GRAPH_STATEMENTS = GraphStatements(
    graph="INSERT INTO mutirao_graph (id, name, unfinished) VALUES (?, ?, ?)",
    steps=_insert("mutirao_step", id="id", job="id", **{name: name for name in _STEP}),
    gates=_insert("mutirao_gate", id="id", unfinished="left"),
    edges=_insert("mutirao_edge", step="step", gate="gate"),
    # From each id to its row: a caller's transaction keeps all that is read on the way locked.
    park="UPDATE json_table(?, '$[*]' COLUMNS (id bigint PATH '$')) given"  # noqa: S608 (a constant)
    " STRAIGHT_JOIN mutirao_live l FORCE INDEX (PRIMARY) ON l.id = given.id"
    f" SET l.run_at = {to_micros(PARKED)}",
)


EXPIRY_STATEMENT = (
    "INSERT INTO mutirao_expiry (job, expires_at, look_at) SELECT job, micros, micros"
    " FROM json_table(?, '$[*]' COLUMNS (job bigint PATH '$.job', micros bigint PATH '$.micros'))"
    " given ON DUPLICATE KEY UPDATE expires_at = mutirao_expiry.expires_at"
)


# A transaction reads its own writes at any isolation level.
INBOX_STATEMENTS = InboxStatements(
    write="""
INSERT INTO mutirao_inbox (consumer, message) VALUES (?, ?)
ON DUPLICATE KEY UPDATE times = times + 1""",
    count="SELECT times FROM mutirao_inbox WHERE consumer = ? AND message = ?",
)
