"""Statements that ask a server for the ids of other sessions in the database, by its kind."""

OTHER_SESSIONS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = database()"
    " AND id <> connection_id()",
}
