"""The paper's tables and figures, one file each: `run` computes and saves, `render` only reads what was saved."""

from __future__ import annotations

from drnmf.paper import mary_figure, pareto_figure, table_audio, table_documents, weights_figure
from drnmf.paper.choice import study as choice_study
from drnmf.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (weights_figure, pareto_figure, table_documents, table_audio, mary_figure)
}
"""Name on the command line -> experiment, in the order of the paper."""

STUDIES: dict[str, Experiment] = {choice_study.EXPERIMENT.name: choice_study.EXPERIMENT}
"""Studies of our own, which are not in the paper and not among "all" of it."""
