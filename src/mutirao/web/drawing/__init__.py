"""Figures and graphs as numbers, which templates draw as SVG."""
