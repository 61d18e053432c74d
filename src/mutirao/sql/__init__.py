"""The SQL store: jobs in the tables of a database that SQLAlchemy can reach."""
