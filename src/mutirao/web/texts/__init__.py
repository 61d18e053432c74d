"""All texts of the dashboard, by language: a dict for each, with the same keys."""
