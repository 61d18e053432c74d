"""The INSERTs of graphs and of the inbox on PostgreSQL."""

from mutirao.sql.dialects.postgresql.moments import CONSTANTS
from mutirao.sql.enqueue.graphs import GraphStatements
from mutirao.sql.enqueue.inbox import InboxStatements

# Subqueries in an array: the live rows are looked up by key, however many there are.
GRAPH_STATEMENTS = GraphStatements(
    graph="""
INSERT INTO mutirao_graph (id, name, unfinished) VALUES (%s::bigint, %s::text, %s::integer)""",
    steps="""
INSERT INTO mutirao_step (id, job, graph, depth, stage, on_dead, gate, needs, compensate)
SELECT id, id, graph, depth, stage, on_dead, gate, needs, compensate
FROM json_to_recordset(%s::text::json) AS step (
    id bigint, graph bigint, depth integer, stage text, on_dead text, gate bigint, needs text,
    compensate text
)""",
    gates="""
INSERT INTO mutirao_gate (id, unfinished)
SELECT id, "left" FROM json_to_recordset(%s::text::json) AS gate (id bigint, "left" integer)""",
    edges="""
INSERT INTO mutirao_edge (step, gate)
SELECT step, gate FROM json_to_recordset(%s::text::json) AS edge (step bigint, gate bigint)""",
    park=f"""
UPDATE mutirao_live SET run_at = {CONSTANTS["parked"]}
WHERE id = ANY(ARRAY(
    SELECT blocked.id::bigint FROM json_array_elements_text(%s::text::json) AS blocked (id)
))""",  # noqa: S608 (our own constants)
)


EXPIRY_STATEMENT = """
INSERT INTO mutirao_expiry (job, expires_at, look_at)
SELECT job, at, at FROM json_to_recordset(%s::text::json) AS noted (job bigint, at timestamptz)
ON CONFLICT DO NOTHING"""


# In REPEATABLE READ what another one has committed meanwhile is an error, and nothing is counted.
INBOX_STATEMENTS = InboxStatements(
    write="""
INSERT INTO mutirao_inbox AS known (consumer, message) VALUES (%s::text, %s::text)
ON CONFLICT (consumer, message) DO UPDATE SET times = known.times + 1 RETURNING times"""
)
