"""Programs that tests run beside themselves, each with one argument: the URL of a database."""
