"""The dialect of SQLite."""
