"""`python -m drnmf`: the command line, for where its script is not on the PATH."""

from drnmf.cli import app

if __name__ == "__main__":
    app(prog_name="python -m drnmf")
