"""Dashboards of Grafana, for Prometheus and for the SQL views, and alert rules of Prometheus.

They are generated from this package, so that tests can run each query as it is written.
"""
