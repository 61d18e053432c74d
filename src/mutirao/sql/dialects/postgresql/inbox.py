"""The statement of the inbox on PostgreSQL."""

from mutirao.sql.enqueue.inbox import InboxStatements

# In REPEATABLE READ what another one has committed meanwhile is an error, and nothing is counted.
INBOX_STATEMENTS = InboxStatements(
    write="""
INSERT INTO mutirao_inbox AS known (consumer, message) VALUES (%s::text, %s::text)
ON CONFLICT (consumer, message) DO UPDATE SET times = known.times + 1 RETURNING times"""
)
