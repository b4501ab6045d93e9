"""The embedded PostgreSQL of every stack but the first is copied: initdb takes 1.5 s of CPU, and waits long for the disk.

The first of a session, what bin/up starts, and what is about the making itself make their own.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from stack import embedded
from stack.embedded import Home

Make = Callable[[Home, Path, str], None]
make_cluster: Make = embedded._make_cluster  # for tests of the making itself


def install(template: Path) -> None:
    """From here on in this process; the first cluster that is made is left at `template` for the others."""
    setattr(embedded, "_make_cluster", _copying(template))  # noqa: B010  a function, to mypy, is not assigned to


def _copying(template: Path) -> Make:
    def copied(home: Home, binaries: Path, password: str) -> None:
        if not template.exists():
            make_cluster(home, binaries, password)
            _copy(home.cluster, template)
            return
        half = home.path / "postgres.new"
        shutil.rmtree(half, ignore_errors=True)
        _copy(template, half)
        embedded._configure(home, half, port=5432)
        embedded._single_user(home, binaries, half, [f"ALTER ROLE {embedded.ROLE} PASSWORD '{password}'"])
        half.rename(home.cluster)

    return copied


def _copy(cluster: Path, to: Path) -> None:
    """With owners and modes; a stopped cluster is files and nothing else."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(cluster), str(to)], check=True)
