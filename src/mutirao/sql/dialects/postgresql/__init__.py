"""The dialect of PostgreSQL."""
