"""The paper's tables and figures, one file each: `run` computes and saves, `render` only reads what was saved."""
