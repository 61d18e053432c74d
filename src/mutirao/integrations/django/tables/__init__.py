"""Tables and views as Django sees them: revisions that it runs, rows that it reads."""
