"""The commands of the pages' forms: on named jobs, on all that match, on other objects."""
