"""The paper's numbers (Gillis, Hien, Leplat and Tan 2021), as printed."""

from __future__ import annotations

DOCUMENT_TITLES = {"acc_kl": "KL", "acc_fro": "Fro", "acc_dr": "DR"}
DOCUMENT_TITLES |= {"fro_kl_excess": "Fro: KL", "dr_kl_excess": "DR: KL"}
DOCUMENT_TITLES |= {"kl_fro_excess": "KL: Fro", "dr_fro_excess": "DR: Fro"}
"""Heads of the columns of the table of section 5.2; "Fro: KL" is the KL error of Fro-NMF."""

DOCUMENT_MEASURES = tuple(DOCUMENT_TITLES)
"""These columns: accuracies, then scaled losses minus one, all in percent."""

DOCUMENTS: dict[str, tuple[int, tuple[float, ...]]] = {
    "NG20": (20, (42.15, 23.08, 28.74, 21.47, 3.85, 149.48, 3.83)),
    "ng3sim": (3, (63.48, 38.06, 49.87, 16.82, 2.70, 17.32, 2.70)),
    "classic": (4, (83.66, 55.64, 78.46, 13.19, 0.74, 2.44, 0.74)),
    "ohscal": (10, (37.45, 30.50, 32.13, 10.03, 1.76, 9.60, 1.75)),
    "k1b": (6, (64.27, 59.19, 60.30, 9.00, 1.32, 5.02, 1.32)),
    "hitech": (6, (43.29, 46.94, 48.02, 8.27, 1.12, 3.98, 1.13)),
    "reviews": (5, (75.65, 51.19, 74.88, 7.89, 1.03, 7.70, 1.03)),
    "sports": (7, (43.93, 40.37, 50.26, 9.60, 1.24, 7.10, 1.24)),
    "la1": (6, (65.95, 65.04, 67.98, 9.26, 1.03, 3.61, 1.03)),
    "la12": (6, (56.25, 54.80, 54.29, 7.32, 0.70, 2.76, 0.70)),
    "la2": (6, (54.96, 49.17, 52.07, 9.21, 0.82, 3.04, 0.82)),
    "tr11": (9, (62.32, 50.48, 51.45, 22.88, 4.48, 97.27, 4.47)),
    "tr23": (6, (34.80, 35.29, 38.73, 56.04, 3.83, 47.36, 3.78)),
    "tr41": (10, (54.33, 44.99, 53.08, 24.38, 4.93, 46.17, 4.90)),
    "tr45": (10, (46.81, 38.26, 39.13, 42.52, 10.15, 50.14, 10.15)),
}
"""Name -> (r, the seven measures), in the paper's order."""

DOCUMENTS_AVERAGE = (55.29, 45.53, 51.96, 17.86, 2.65, 30.20, 2.64)

AUDIO_MEASURES = ("kl_is_excess", "dr_is_excess", "is_kl_excess", "dr_kl_excess")
"""Columns of the table of section 5.3: scaled losses minus one in percent, mean and deviation over 10 starts."""

AUDIO: dict[str, tuple[int, tuple[tuple[float, float], ...]]] = {
    "syntBassDrum": (543, ((39.54, 3.28), (7.06, 3.01), (108.09, 16.78), (7.06, 3.01))),
    "piano_Mary": (586, ((387.51, 253.67), (9.73, 2.74), (177.71, 22.79), (9.73, 2.74))),
    "prelude_JSB": (2582, ((31.81, 3.57), (13.05, 3.55), (185.93, 54.84), (13.04, 3.55))),
    "syntCCcyGC": (1377, ((9.79, 0.64), (2.63, 0.38), (42.21, 10.29), (2.63, 0.38))),
    "trio_Brahms": (14813, ((360.49, 44.65), (14.74, 1.99), (257.61, 130.29), (14.74, 1.99))),
    "trio_bapitru": (6200, ((354.66, 25.31), (9.16, 2.03), (249.99, 28.72), (9.15, 2.03))),
    "voice_cell": (2181, ((186.46, 2.20), (13.98, 3.75), (191.12, 23.43), (13.98, 3.75))),
    "ShanHur_sunrise": (4102, ((53.51, 8.32), (12.31, 1.36), (184.72, 34.74), (12.30, 1.35))),
    "sisec_mixdrums": (1249, ((25.61, 0.87), (12.74, 1.38), (292.40, 56.62), (12.74, 1.38))),
    "sisec_mixfemale": (1249, ((37.68, 2.88), (12.12, 0.85), (100.67, 8.88), (12.12, 0.85))),
}
"""Name -> (n, (mean, deviation) of the four measures), in the paper's order."""

WEIGHTS_FIRST_ITERATION = {"frank-wolfe": 240, "subgradient": 800}
"""Section 4.5: iteration from which the largest scaled loss stays below 1.02 ("about" 800 for the second)."""

PARETO_DR_EXCESS = 2.0
"""Section 5.1: the DR point is "always at most 2% worse than the lowest error"."""

PARETO_SINGLE_EXCESS = 35.0
"""Section 5.1: one objective alone costs "up to 35%" in the other, met for IS with Frobenius."""

PARETO_IS_FRO_WEIGHT = 0.9
"""Section 5.1: for IS with Frobenius the DR point is close to lambda = (0.9, 0.1)."""

MARY_KL_TIMES_IS = 9.0
"""Section 5.3: without noise KL-NMF's IS error is "almost 9 times larger" than IS-NMF's."""

MARY_SCORE = ("E4", "D4", "C4", "D4", "E4", "E4", "E4")
"""The notes of the recording, in order."""

MARY_NOTES = {"C4": 261.6, "D4": 293.7, "E4": 329.6}
"""Fundamental frequencies in Hz."""
