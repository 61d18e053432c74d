"""The statements of the inbox on MySQL and MariaDB."""

from mutirao.sql.enqueue.inbox import InboxStatements

# What a transaction has written itself it reads whatever its isolation level.
INBOX_STATEMENTS = InboxStatements(
    write="""
INSERT INTO mutirao_inbox (consumer, message) VALUES (?, ?)
ON DUPLICATE KEY UPDATE times = times + 1""",
    count="SELECT times FROM mutirao_inbox WHERE consumer = ? AND message = ?",
)
