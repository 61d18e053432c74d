"""The client's operations over other stores than the application's own, and the list of these."""
