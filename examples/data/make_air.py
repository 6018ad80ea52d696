"""Write air.csv and sources.csv: a table whose answer is known, for `make demo` and the quickstart.

120 days of 16 species in air, made of four sources with stylised profiles. Each reading has a relative error of 10 %,
so the noise is that of beta = 0. Nothing in it was measured.
"""

import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

SPECIES = ["OC", "EC", "SO4", "NO3", "NH4", "Na", "Cl", "Mg", "K", "Ca", "Si", "Fe", "Al", "Zn", "Cu", "Pb"]
SOURCES = {  # percent of the mass of each source
    "sea salt": (1, 0, 8, 4, 0, 32, 48, 4, 1.5, 1.5, 0, 0, 0, 0, 0, 0),
    "traffic": (42, 36, 2, 5, 2, 0, 1, 0.5, 0.5, 2, 2, 5, 0.5, 1, 0.4, 0.1),
    "wood smoke": (68, 14, 2, 3, 1, 0.5, 4, 0, 6.5, 0.5, 0, 0.1, 0, 0.3, 0, 0.1),
    "soil": (4, 0, 1, 0, 0, 1, 0, 3, 3, 14, 46, 13, 15, 0, 0, 0),
}
DAYS = 120


def main() -> None:
    """Draw the table from a seed and write it beside this file."""
    rng = np.random.default_rng(5)
    profiles = np.array(list(SOURCES.values())) / 100
    days = np.arange(DAYS)
    season = np.stack([np.ones(DAYS), np.ones(DAYS), 1 + np.cos(days / 57), 1 - 0.8 * np.cos(days / 57)], axis=1)
    weekday = np.where((days % 7)[:, None] < 5, (1, 1.6, 1, 1), 1)
    amounts = rng.gamma(0.8, 4.0, (DAYS, len(SOURCES))) * season * weekday
    X = amounts @ profiles * rng.gamma(100, 0.01, (DAYS, len(SPECIES)))
    here, first = Path(__file__).parent, date(2025, 1, 6)
    with open(here / "air.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["day", *SPECIES])
        for day, row in zip(days.tolist(), X, strict=True):
            table.writerow([first + timedelta(day), *(f"{value:.4g}" for value in row)])
    with open(here / "sources.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["species", *SOURCES])
        table.writerows(
            [name, *(f"{share:g}" for share in column)] for name, column in zip(SPECIES, profiles.T, strict=True)
        )


if __name__ == "__main__":
    main()
