"""What can be reproduced, by its name on the command line."""

from __future__ import annotations

from drnmf.apps.paper import mary_figure, pareto_figure, parts_study, table_audio, weights_figure
from drnmf.apps.paper.choice import study as choice_study
from drnmf.apps.paper.documents import table as documents_table
from drnmf.apps.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (weights_figure, pareto_figure, documents_table, table_audio, mary_figure)
}
"""Name on the command line -> experiment, in the order of the paper."""

STUDIES: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in (choice_study, parts_study)}
"""Studies of our own, which are not in the paper and not among "all" of it."""
