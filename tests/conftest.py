"""Fixtures and settings for all tests."""

from __future__ import annotations

import os
import signal
import stat

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "drnmf", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("drnmf")

# A shell that runs its jobs in the background makes them ignore Ctrl-C, and their children too: the tests that send it
# need Python's own handler.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", metavar="I/N", help="run every N-th test only, from the I-th on")


def pytest_collection_modifyitems(config, items):
    """Leave the tests of one shard: where no plugin divides them, N processes can (`make test-gpu`)."""
    first, step = (int(number) for number in config.getoption("--shard").split("/"))
    items[:] = items[first - 1 :: step]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def problem(rng):
    """A strictly positive X of 23 x 31 with a strictly positive start of rank 4."""
    X = rng.gamma(2.0, 1.0, (23, 4)) @ rng.gamma(2.0, 1.0, (4, 31)) * rng.uniform(0.5, 1.5, (23, 31))
    return X, rng.uniform(0.1, 1.0, (23, 4)), rng.uniform(0.1, 1.0, (4, 31))


@pytest.fixture
def synced(monkeypatch):
    """What is flushed to disk, in order, without the wait for it."""
    calls: list[str] = []
    replace = os.replace

    def fsync(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    def rename(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr("os.replace", rename)
    return calls
