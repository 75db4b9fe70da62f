"""Runs the whole pipeline unattended: one configuration, one night, one answer."""
