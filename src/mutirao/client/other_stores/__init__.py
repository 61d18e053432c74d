"""The client's operations over another store than the application's own."""
