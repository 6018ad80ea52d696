"""Applications: each has its data, its commands and the sections of its pages, and nothing outside imports it."""
