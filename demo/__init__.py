"""The demo: two runs of a real server, from their logs to a report, by the commands that anyone would type."""
