"""Mutirão: background jobs that live in the SQL database an application already has."""
