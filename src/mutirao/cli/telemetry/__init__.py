"""The commands for those who watch: what the store holds for Prometheus, files for Grafana."""
