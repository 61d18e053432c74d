"""Commands for monitoring: metrics of the store for Prometheus, files for Grafana."""
