"""The statement of the inbox on SQLite."""

from mutirao.sql.enqueue.inbox import InboxStatements

INBOX_STATEMENTS = InboxStatements(
    write="""
INSERT INTO mutirao_inbox (consumer, message) VALUES (?, ?)
ON CONFLICT (consumer, message) DO UPDATE SET times = times + 1 RETURNING times"""
)
