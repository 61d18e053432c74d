"""A migration for each revision of the tables; `mutirao migrate` runs the same."""
