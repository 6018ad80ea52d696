"""Programs of others under `python -m drnmf.accelerate`, unchanged, beside themselves on scikit-learn.

    pip install cnmf==1.7.1 librosa==0.11.0
    python benchmarks/accelerate_clients.py

cNMF, librosa's decompose, and a search over a scikit-learn pipeline: the same shapes, the loss beside that on
scikit-learn, and the share of the calls that ran here. A client that is not installed in its version is left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import print_table, write_csv

PIPELINE = """
import json
import numpy as np
from sklearn.decomposition import NMF
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

X, y = load_digits(return_X_y=True)
pipeline = make_pipeline(NMF(random_state=0), LogisticRegression(max_iter=200))
search = GridSearchCV(pipeline, {"nmf__n_components": [5, 15]}, cv=2).fit(X[:600], y[:600])
model = search.best_estimator_[0]
print(json.dumps({"shapes": [list(model.components_.shape)], "loss": model.reconstruction_err_}))
"""
LIBROSA = """
import json
import numpy as np
import librosa

at = np.arange(16000)
tone = sum(librosa.tone(f, sr=8000, length=16000) * (at % p < p // 2) for f, p in ((440, 3000), (660, 5000)))
S = np.abs(librosa.stft(tone, n_fft=512))
W, H = librosa.decompose.decompose(S, n_components=4, sort=True)
print(json.dumps({"shapes": [list(W.shape), list(H.shape)], "loss": float(np.linalg.norm(S - W @ H))}))
"""
CNMF = """
import json, tempfile
import numpy as np, pandas as pd
from cnmf import cNMF

rng = np.random.default_rng(0)
X = rng.poisson(rng.gamma(0.3, size=(200, 5)) @ rng.gamma(0.3, size=(5, 300)) * 20)
folder = tempfile.mkdtemp()
table = pd.DataFrame(X, index=[f"c{i}" for i in range(200)], columns=[f"g{j}" for j in range(300)])
table.to_csv(folder + "/counts.txt", sep="\\t")
job = cNMF(output_dir=folder, name="run")
job.prepare(folder + "/counts.txt", components=[4, 5], n_iter=6, seed=14, num_highvar_genes=200)
job.factorize(worker_i=0, total_workers=1)
job.combine()
stats = job.consensus(5, skip_density_and_return_after_stats=True, show_clustering=False).stats
job.consensus(5, density_threshold=2.0, show_clustering=False)
usage, spectra, *_ = job.load_results(K=5, density_threshold=2.0)
loss = float(stats["prediction_error"])
print(json.dumps({"shapes": [list(usage.shape), list(spectra.shape)], "loss": loss}))
"""
CLIENTS = {
    "GridSearchCV over a pipeline": ("scikit-learn", None, PIPELINE),
    "librosa.decompose": ("librosa", "0.11.0", LIBROSA),
    "cNMF": ("cnmf", "1.7.1", CNMF),
}


def ran(script: Path, *before: str) -> tuple[dict[str, object], str]:
    """Run a client; returns what it found, and what was said."""
    settings = os.environ | {"MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, *before, str(script)], capture_output=True, text=True, env=settings)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def main() -> None:
    rows = []
    for name, (package, wanted, code) in CLIENTS.items():
        try:
            here = version(package)
        except PackageNotFoundError:
            here = "absent"
        if wanted is not None and here != wanted:
            print(f"{name} is left out: {package} {wanted} is wanted, and {here}.")
            continue
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "client.py"
            script.write_text(code)
            theirs, _ = ran(script)
            ours, said = ran(script, "-m", "drnmf.accelerate")
        found = re.search(r"(\d+) of (\d+) calls ran on drnmf", said)
        assert found is not None, said
        rows.append({
            "client": name, "version": here, "calls": int(found[2]), "here": int(found[1]) / int(found[2]),
            "same shapes": ours["shapes"] == theirs["shapes"], "loss over its": ours["loss"] / theirs["loss"],
        })  # fmt: skip
    print_table(rows)
    write_csv("accelerate-clients", rows)


if __name__ == "__main__":
    main()
