"""Which modules `make wheel` compiles, as `pyproject.toml` lists them."""

from __future__ import annotations

import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def compiled_paths() -> list[Path]:
    """List their files, below `src`."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    return [Path(path).relative_to("/src") for path in hook["include"]]


def compiled_names() -> list[str]:
    """List them as they are imported."""
    return [".".join(path.with_suffix("").parts) for path in compiled_paths()]
