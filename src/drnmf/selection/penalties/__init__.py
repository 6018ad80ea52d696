"""Penalties whose weight is left to the data."""
