"""The INSERTs of graphs and of the inbox on SQLite."""

from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.enqueue.graphs import GraphStatements
from mutirao.sql.enqueue.inbox import InboxStatements
from mutirao.sql.schema.types import to_micros


def _each(*names: str) -> str:
    return ", ".join(f"json_extract(value, '$.{name}')" for name in names)


_STEP = ("graph", "depth", "stage", "on_dead", "gate", "needs", "compensate")

GRAPH_STATEMENTS = GraphStatements(
    graph="INSERT INTO mutirao_graph (id, name, unfinished) VALUES (?, ?, ?)",
    steps=f"INSERT INTO mutirao_step (id, job, {', '.join(_STEP)})"  # noqa: S608 (constants)
    f" SELECT {_each('id', 'id', *_STEP)} FROM json_each(?)",
    gates="INSERT INTO mutirao_gate (id, unfinished)"  # noqa: S608 (likewise)
    f" SELECT {_each('id', 'left')} FROM json_each(?)",
    edges="INSERT INTO mutirao_edge (step, gate)"  # noqa: S608 (likewise)
    f" SELECT {_each('step', 'gate')} FROM json_each(?)",
    park=f"UPDATE mutirao_live SET run_at = {to_micros(PARKED)}"  # noqa: S608 (a constant)
    " WHERE id IN (SELECT value FROM json_each(?))",
)


EXPIRY_STATEMENT = (
    "INSERT INTO mutirao_expiry (job, expires_at, look_at)"  # noqa: S608 (constants)
    f" SELECT {_each('job', 'micros', 'micros')} FROM json_each(?) WHERE true"
    " ON CONFLICT DO NOTHING"
)


INBOX_STATEMENTS = InboxStatements(
    write="""
INSERT INTO mutirao_inbox (consumer, message) VALUES (?, ?)
ON CONFLICT (consumer, message) DO UPDATE SET times = times + 1 RETURNING times"""
)
