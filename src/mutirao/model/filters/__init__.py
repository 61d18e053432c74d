"""The filter language: which jobs are meant, as one text for pages, API and command line."""
