"""PostgreSQL: what is said differently there."""
