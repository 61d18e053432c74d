"""The tables and views for SQLAlchemy Core, and the version of them that a database has."""
