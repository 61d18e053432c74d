"""Rules of unique keys and of supersede."""
