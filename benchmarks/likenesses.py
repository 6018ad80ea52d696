"""Tables drawn from a seed that look like pictures, sound, texts, cells and spectra: structure that real sets have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

Table = tuple[str, Any]


def likenesses() -> Iterator[Table]:
    """Every table by name; each has a generator of its own, so that none depends on the others."""
    pictures, rng = swimmers(), np.random.default_rng(1)
    yield "swimmer", pictures
    yield "swimmer, normal noise", np.clip(pictures + 0.1 * rng.normal(size=pictures.shape), 0.0, None)
    yield "swimmer, bright noise", pictures + 0.1 * np.abs(rng.normal(size=pictures.shape))
    yield "swimmer, counts", rng.poisson(2.0 * pictures + 0.1).astype(float)
    yield "swimmer, sparse", sp.csr_array(pictures * rng.gamma(4.0, 0.25, size=pictures.shape))
    yield "swimmer, float32", np.clip(pictures + 0.2 * rng.normal(size=pictures.shape), 0.0, None).astype(np.float32)
    yield "notes, magnitude", np.sqrt(notes(257, 400, 12, 2))
    yield "notes, power", notes(257, 400, 12, 3)
    yield "topics", topics(400, 1500, 15, 4)
    yield "topics, tf-idf", weighted_terms(topics(400, 1500, 15, 5))
    yield "cells-like", cells(500, 800, 8, 6)
    yield "scene", scene(100, 900, 5, 7)
    for density in (0.02, 0.1, 0.3):
        yield f"planted sparse, {density:g} stored", planted_sparse(500, 400, 10, density, 8)
    rng = np.random.default_rng(9)
    mean = rng.gamma(0.5, size=(250, 10)) @ rng.gamma(0.5, size=(10, 300))
    yield "planted low noise", np.clip(mean + 0.02 * mean.mean() * rng.normal(size=mean.shape), 0.0, None)
    yield "planted outliers", mean + (rng.uniform(size=mean.shape) < 0.02) * rng.exponential(10.0, size=mean.shape)
    yield "planted float32", (mean * rng.gamma(10.0, 0.1, size=mean.shape)).astype(np.float32)
    yield "planted heavy rows", mean * rng.lognormal(0.0, 1.5, size=(250, 1)) * rng.gamma(10.0, 0.1, size=mean.shape)
    yield "blocks", blocks(240, 200, 12, 10)


def swimmers(side: int = 32) -> Any:
    """256 pictures of a swimmer: a torso and four limbs, each in one of four positions (Donoho and Stodden 2003)."""
    torso = np.zeros((side, side))
    middle, length = side // 2, side // 4
    torso[middle - 6 : middle + 6, middle - 1 : middle + 1] = 1.0
    limbs = np.zeros((4, 4, side, side))
    for limb, (down, right) in enumerate([(-1, -1), (-1, 1), (1, -1), (1, 1)]):
        y, x = middle + (5 if down > 0 else -6), middle + (1 if right > 0 else -2)
        for position, angle in enumerate(np.deg2rad([0.0, 30.0, 60.0, 90.0])):
            along = np.linspace(0.0, length, 4 * length)
            rows, columns = y + down * along * np.sin(angle), x + right * along * np.cos(angle)
            limbs[limb, position, np.rint(rows).astype(int), np.rint(columns).astype(int)] = 1.0
    positions = np.indices((4, 4, 4, 4)).reshape(4, -1)
    drawn = np.maximum(torso, limbs[np.arange(4)[:, None], positions].max(axis=0))
    return drawn.reshape(len(drawn), -1)


def notes(bins: int, frames: int, pitches: int, seed: int) -> Any:
    """Power of notes with harmonics that are struck and fade, under exponential noise: (bins, frames)."""
    rng, length = np.random.default_rng(seed), 25
    lowest = rng.uniform(4.0, 30.0, pitches)
    spectra = sum(np.exp(-0.5 * ((np.arange(bins) - k * lowest[:, None]) / 1.2) ** 2) / k for k in range(1, 16))
    struck = (rng.uniform(size=(pitches, frames // length)) < 0.2) * rng.gamma(1.0, size=(pitches, frames // length))
    loudness = (struck[:, :, None] * np.exp(-np.arange(length) / 8.0)).reshape(pitches, -1)
    return (spectra.T @ loudness + 1e-4) * rng.exponential(size=(bins, loudness.shape[1]))


def topics(documents: int, words: int, count: int, seed: int) -> Any:
    """Counts of words drawn from mixtures of topics over a Zipf vocabulary: sparse."""
    rng = np.random.default_rng(seed)
    common = 1.0 / np.arange(1, words + 1)
    terms = rng.gamma(0.1, size=(count, words)) * common
    shares = rng.dirichlet(np.full(count, 0.1), size=documents)
    mean = shares @ (terms / terms.sum(axis=1, keepdims=True))
    return sp.csr_array(rng.poisson(rng.integers(50, 400, size=(documents, 1)) * mean).astype(float))


def weighted_terms(counts: Any) -> Any:
    """Return tf-idf with rows of norm one, as text is usually given."""
    weights = np.log(counts.shape[0] / np.maximum((counts > 0).sum(axis=0), 1.0)) + 1.0
    weighted = sp.csr_array(counts.multiply(weights[None, :]))
    return sp.csr_array(sp.diags_array(1.0 / np.sqrt(weighted.power(2).sum(axis=1))) @ weighted)


def cells(count: int, genes: int, programmes: int, seed: int) -> Any:
    """Negative binomial counts of genes in cells of unlike depth, most of them zero: sparse."""
    rng = np.random.default_rng(seed)
    mean = rng.dirichlet(np.full(programmes, 0.3), size=count) @ rng.gamma(0.2, size=(programmes, genes))
    mean *= rng.lognormal(0.0, 0.7, size=(count, 1))
    return sp.csr_array(rng.poisson(mean * rng.gamma(2.0, 0.5, size=mean.shape)).astype(float))


def scene(bands: int, pixels: int, materials: int, seed: int) -> Any:
    """Smooth spectra mixed in every pixel, with a little noise: nearly of low rank."""
    rng, wave = np.random.default_rng(seed), np.linspace(0.0, 1.0, bands)
    centres, widths = rng.uniform(size=(materials, 6)), rng.uniform(0.05, 0.3, size=(materials, 6))
    spectra = np.exp(-(((wave[:, None, None] - centres) / widths) ** 2)) @ np.ones(6) / 6.0
    mixed = spectra @ rng.dirichlet(np.full(materials, 0.7), size=pixels).T
    return np.clip(mixed + 0.01 * rng.normal(size=mixed.shape), 0.0, None)


def planted_sparse(m: int, n: int, rank: int, density: float, seed: int) -> Any:
    """A planted matrix of which a random part is stored and the rest is zero."""
    rng = np.random.default_rng(seed)
    mean = rng.gamma(0.5, size=(m, rank)) @ rng.gamma(0.5, size=(rank, n))
    return sp.csr_array(mean * (rng.uniform(size=mean.shape) < density))


def blocks(m: int, n: int, count: int, seed: int) -> Any:
    """Overlapping blocks of ones with a tenth of the entries turned over."""
    rng = np.random.default_rng(seed)
    member = rng.uniform(size=(m, count)) < 0.15, rng.uniform(size=(count, n)) < 0.15
    whole = (member[0].astype(float) @ member[1].astype(float)) > 0
    return np.where(rng.uniform(size=whole.shape) < 0.1, ~whole, whole).astype(float)
