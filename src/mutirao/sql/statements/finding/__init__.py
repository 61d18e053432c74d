"""How jobs are found by a filter, for people and for actions; the same on every database."""
