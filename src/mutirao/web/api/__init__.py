"""The HTTP API of the dashboard: the same commands and filters as its pages, as JSON.

What can be asked is a table of operations; the router, the access, and the OpenAPI document are
made of it, so they cannot differ.
"""
