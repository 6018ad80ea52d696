"""A seeded fuzzer of everything that the commands read."""
