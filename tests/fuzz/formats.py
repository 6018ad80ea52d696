"""The formats: how a sound example is made, and which command reads it. Examples are small, so that cases are fast."""

from __future__ import annotations

import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

X = np.round(np.random.default_rng(0).uniform(0.1, 1, (12, 9)), 3)
S = sp.csr_array(sp.random(12, 9, 0.5, random_state=np.random.RandomState(0)))
FEW = ("--rank", "2", "--max-iter", "3", "--quiet", "--no-report")
LIMITED = ("--max-time", "5")  # a damaged number of iterations may be a large one
WORDS = ["red green blue cat", "green blue dog red", "cat dog red mouse", "mouse cat blue green", "dog red mouse blue"]


@dataclass(frozen=True)
class Format:
    """What is damaged and who reads it.

    Attributes
    ----------
    make : writes the sound example into a folder
    command : the arguments of drnmf, run in that folder
    pattern : the files that may be damaged
    """

    make: Callable[[Path], Any]
    command: tuple[str, ...]
    pattern: str
    edit: Callable[[Path, random.Random], None] | None = None


def fit(name: str) -> tuple[str, ...]:
    return ("fit", name, *FEW, *LIMITED, "--betas", "1,2", "--out", "out")


def run(folder: Path, *arguments: str) -> None:
    """A command in a folder, while examples are made."""
    from contextlib import chdir

    from typer.testing import CliRunner

    from drnmf.cli import app

    with chdir(folder):
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def table(separator: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        lines = [separator.join(["name", *(f"c{j}" for j in range(9))])]
        lines += [separator.join([f"r{i}", *map(str, row)]) for i, row in enumerate(X.tolist())]
        (folder / ("x.csv" if separator == "," else "x.tsv")).write_text("\n".join(lines) + "\n")

    return make


def make_frame(suffix: str) -> Callable[[Path], Any]:
    """A table with typed cells: labels, decimals, numbers as text, and plain ones."""

    def make(folder: Path) -> None:
        import pandas as pd

        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(9)])
        frame = frame.assign(c0=[Decimal(str(value)) for value in X[:, 0].tolist()], c1=frame["c1"].astype(str))
        frame.insert(0, "name", [f"r{i}" for i in range(12)])
        getattr(frame, {".parquet": "to_parquet", ".feather": "to_feather", ".xlsx": "to_excel"}[suffix])(
            folder / f"x{suffix}", **({"index": False} if suffix == ".xlsx" else {})
        )
        if suffix == ".xlsx":
            without_time(folder / "x.xlsx")

    return make


def without_time(path: Path) -> None:
    """Set every time of day in a zip archive, and in the XML inside it, to the same."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            fixed = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"2000-01-01T00:00:00Z", content)
            archive.writestr(zipfile.ZipInfo(name), fixed)


def make_model(folder: Path) -> None:
    from drnmf import DRNMF

    DRNMF(2, betas=(0, 1), max_iter=5, tol=0, random_state=0).fit(X).save(folder / "model.npz")
    np.save(folder / "rows.npy", X[:5])


def edit_model(folder: Path, rng: random.Random) -> None:
    """Other numbers under a checksum that is right."""
    from drnmf.storage.archive import read_archive, write_archive
    from tests.fuzz.mutations import VALUES, places

    arrays, meta = read_archive(folder / "model.npz")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    del meta["sha256"], meta["format"]
    if rng.random() < 0.5:
        container, key = rng.choice(places(meta, []))
        container[key] = rng.choice([value for value in VALUES if value == value])
    else:
        array = rng.choice(
            [arrays[name] for name in sorted(arrays) if arrays[name].dtype.kind == "f" and arrays[name].size]
        )
        array.flat[rng.randrange(array.size)] = rng.choice((0, -1, np.nan, np.inf, 1e308, 1e-320))
    write_archive(folder / "model.npz", arrays, meta)


def make_run(kind: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        np.save(folder / "x.npy", X)
        few = [option for option in FEW if option != "3"]
        few.insert(few.index("--max-iter") + 1, "12")
        if kind == "topics":
            make_texts(folder)
            run(folder, "topics", "texts", *few, "--min-df", "1", "--max-df", "1.0", "--out", "run")
        else:
            more = ("--points", "3") if kind == "pareto" else ()
            run(folder, kind, "x.npy", *few, "--betas", "0,1", *more, "--out", "run")

    return make


def make_checkpoint(folder: Path) -> None:
    np.save(folder / "x.npy", X)
    options = [option for option in fit("x.npy") if option not in ("--out", "out")]
    run(folder, *options, "--checkpoint", "kept", "--checkpoint-every", "0", "--out", "before")
    shutil.rmtree(folder / "before")
    (folder / "kept" / "run-0002.npz").unlink()  # the last run is still to be made
    command = json.loads((folder / "kept" / "command.json").read_text())
    command["options"]["x"] = "x.npy"  # the examples are copied
    (folder / "kept" / "command.json").write_text(json.dumps(command))


def make_texts(folder: Path) -> None:
    (folder / "texts").mkdir()
    for i, text in enumerate(WORDS):
        (folder / "texts" / f"{i}.txt").write_text(text)


def make_table_of_texts(suffix: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        path = folder / f"x{suffix}"
        if suffix == ".jsonl":
            path.write_text("".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(WORDS)))
        elif suffix == ".csv":
            path.write_text("id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(WORDS)))
        else:
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table({"text": WORDS}), path)

    return make


def topics(name: str, *more: str) -> tuple[str, ...]:
    return ("topics", name, *more, *FEW, "--min-df", "1", "--max-df", "1.0", "--out", "out")


def make_recording(folder: Path) -> None:
    import soundfile

    seconds = np.arange(2000) / 8000
    soundfile.write(folder / "x.wav", 0.4 * np.sin(2 * np.pi * 440 * seconds) + 0.3 * np.sin(6000 * seconds**2), 8000)


def make_h5ad(X: Any, **options: Any) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        import anndata

        anndata.AnnData(X).write_h5ad(folder / "x.h5ad", **options)

    return make


def make_mat(X: Any) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        path = folder / "x.mat"
        scipy.io.savemat(path, {"X": X})
        path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + path.read_bytes()[116:])  # without the time of day

    return make


def make_zarr(folder: Path) -> None:
    import zarr

    zarr.save_array(str(folder / "x.zarr"), X)


def make_rows(folder: Path) -> None:
    """Rows as lines of JSON, objects and arrays in turn."""
    names = [f"c{j}" for j in range(9)]
    lines = [dict(zip(names, row, strict=True)) if i % 2 == 0 else row for i, row in enumerate(X.tolist())]
    (folder / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def stream(name: str, *more: str) -> tuple[str, ...]:
    return ("stream", name, "--rank", "2", "--batch", "4", "--quiet", "--no-report", "--out", "out", *more)


def make_stream(folder: Path) -> None:
    """A stream that stopped, and rows for it to go on with."""
    np.save(folder / "first.npy", X)
    np.save(folder / "more.npy", X)
    run(folder, *stream("first.npy"))


def make_two_tables(folder: Path) -> None:
    table(",")(folder)
    (folder / "y.csv").write_text((folder / "x.csv").read_text().replace("c", "d"))


def make_profiles(folder: Path) -> None:
    table(",")(folder)
    lines = ["name,one,two", *(f"c{j},{X[0, j]},{X[1, j]}" for j in range(9))]
    (folder / "known.csv").write_text("\n".join(lines) + "\n")


def make_blocks(folder: Path) -> None:
    (folder / "blocks").mkdir()
    np.save(folder / "blocks" / "a.npy", X)
    sp.save_npz(folder / "blocks" / "b.npz", S.tocsr())


FORMATS: dict[str, Format] = {
    "csv": Format(table(","), fit("x.csv"), "x.csv"),
    "tsv": Format(table("\t"), fit("x.tsv"), "x.tsv"),
    "npy": Format(lambda folder: np.save(folder / "x.npy", X), fit("x.npy"), "x.npy"),
    "npz": Format(lambda folder: np.savez(folder / "x.npz", X=X, y=X[0]), fit("x.npz"), "x.npz"),
    "sparse npz": Format(lambda folder: sp.save_npz(folder / "x.npz", S), fit("x.npz"), "x.npz"),
    "mtx": Format(lambda folder: scipy.io.mmwrite(folder / "x.mtx", S), fit("x.mtx"), "x.mtx"),
    "dense mtx": Format(lambda folder: scipy.io.mmwrite(folder / "x.mtx", X), fit("x.mtx"), "x.mtx"),
    "mat": Format(make_mat(X), fit("x.mat"), "x.mat"),
    "sparse mat": Format(make_mat(S.tocsc()), fit("x.mat"), "x.mat"),
    "jsonl": Format(make_table_of_texts(".jsonl"), topics("x.jsonl", "--column", "text"), "x.jsonl"),
    "csv of texts": Format(make_table_of_texts(".csv"), topics("x.csv", "--column", "text"), "x.csv"),
    "wav": Format(
        make_recording, ("separate", "x.wav", *FEW, "--window", "64", "--hop", "32", "--out", "out"), "x.wav"
    ),
    "model": Format(make_model, ("transform", "model.npz", "rows.npy", "--out", "W.npy"), "model.npz", edit_model),
    "stream of csv": Format(table(","), stream("x.csv"), "x.csv"),
    "stream of jsonl": Format(make_rows, stream("x.jsonl", "--passes", "2"), "x.jsonl"),
    "stream to continue": Format(make_stream, stream("more.npy", "--continue"), "out/*"),
    "tables": Format(
        make_two_tables, ("tables", "x.csv", "y.csv", *FEW, *LIMITED, "--betas", "x=1,y=2", "--out", "out"), "[xy].csv"
    ),
    "assign": Format(
        make_profiles, ("assign", "x.csv", "--components", "known.csv", "--betas", "1", "--out", "out"), "*.csv"
    ),
    "fit run": Format(make_run("fit"), ("report", "run"), "run/*"),
    "pareto run": Format(make_run("pareto"), ("report", "run"), "run/*"),
    "topics run": Format(make_run("topics"), ("report", "run"), "run/*"),
    "checkpoint": Format(make_checkpoint, ("resume", "kept", "--out", "out", "--quiet"), "kept/*"),
    "parquet": Format(make_table_of_texts(".parquet"), topics("x.parquet", "--column", "text"), "x.parquet"),
    "parquet table": Format(make_frame(".parquet"), fit("x.parquet"), "x.parquet"),
    "feather": Format(make_frame(".feather"), fit("x.feather"), "x.feather"),
    "xlsx": Format(make_frame(".xlsx"), fit("x.xlsx"), "x.xlsx"),
    "blocks": Format(make_blocks, fit("blocks"), "blocks/*"),
    "zarr": Format(make_zarr, fit("x.zarr"), "x.zarr/**/*"),
    "h5ad": Format(make_h5ad(X), fit("x.h5ad"), "x.h5ad"),
    "sparse h5ad": Format(make_h5ad(sp.csr_matrix(S), compression="gzip"), fit("x.h5ad"), "x.h5ad"),
}
"""By name. Those that need large packages come last: a fork of a process with all of them takes longer."""
