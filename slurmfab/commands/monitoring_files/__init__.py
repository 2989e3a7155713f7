"""Files for a Prometheus and a Grafana outside of the cluster: targets, scrapes, alert rules and a dashboard."""
