"""Every command that the documents show, in a fresh clone: which there are, and how each is run."""
