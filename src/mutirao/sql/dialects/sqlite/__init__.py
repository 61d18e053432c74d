"""SQLite: what is said differently there."""
