"""The command that runs a pipeline on a cluster, written out for who operates one.

With a driver on this machine none is needed: `moldau pipeline run --master URL` is all. This is for
drivers that run in the cluster themselves. Pure: it makes text.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlparse

from moldau.base.errors import UserError

_ON_CLUSTER: Final = "cluster"


def submit_command(
    master: str,
    program: str,
    arguments: Sequence[str],
    *,
    python: str,
    image: str | None = None,
    settings: Mapping[str, str],
) -> str:
    """Return a `spark-submit` command line; UserError if the master cannot be.

    `program` is the Python file to run, where the driver will be (on Kubernetes in the image),
    `python` the interpreter on the machines of the cluster, which has to have Moldau.
    """
    given = {**_settings(master, python, image), **settings}
    words = ["spark-submit", "--master", master, "--deploy-mode", _mode(master)]
    for name, value in sorted(given.items()):
        words += ["--conf", f"{name}={value}"]
    lines = [" ".join(shlex.quote(word) for word in words[:5])]
    lines += [shlex.join(words[at : at + 2]) for at in range(5, len(words), 2)]
    lines.append(shlex.join([_place(master, program), *arguments]))
    return " \\\n  ".join(lines)


def _mode(master: str) -> str:
    # A standalone cluster takes drivers in Python on the submitting machine only.
    return "client" if master.startswith(("spark://", "local")) else _ON_CLUSTER


def _place(master: str, program: str) -> str:
    # On Kubernetes a bare path means a file of this machine, to be uploaded; it is in the image.
    is_bare = not urlparse(program).scheme
    return f"local://{program}" if master.startswith("k8s://") and is_bare else program


def _settings(master: str, python: str, image: str | None) -> dict[str, str]:
    found = {"spark.pyspark.python": python}
    if master.startswith("k8s://"):
        if image is None:
            raise UserError(
                "Kubernetes runs a container: name an image that has Spark and moldau[spark] with"
                " --image"
            )
        return {**found, "spark.kubernetes.container.image": image}
    if master == "yarn":
        return {**found, "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python}
    if not master.startswith(("spark://", "local")):
        raise UserError(f"{master} is no master of Spark's: spark://..., yarn, k8s://... or local")
    return found
