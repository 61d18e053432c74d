"""Applications that the tests run with real web servers."""
