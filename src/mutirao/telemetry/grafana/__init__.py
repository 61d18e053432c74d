"""Dashboards of Grafana, for Prometheus and for the SQL views, and alert rules of Prometheus.

Made of what stands here, so that queries are read, and run by tests, as they are written.
"""
