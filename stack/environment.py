"""Makes and mends the checkout's virtual environment, `.venv`. Called by bin/_setup as a file, on the standard library alone.

    python -I stack/environment.py run     what a stack needs
    python -I stack/environment.py dev     and what tests and checks need

A stamp inside `.venv` says what it was made from; without a right stamp it is finished or rebuilt. One set-up at a time:
the lock is on the checkout's folder itself, so it leaves no file behind and is released by the kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK_FILES = {"run": ("base.txt", "embedded.txt"), "dev": ("dev.txt",)}


class SetupError(Exception):
    """A sentence for the person who called."""


def main(kind: str, root: Path = ROOT) -> int:
    try:
        ensure(kind, root)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up was interrupted; the next run finishes it.", file=sys.stderr)
        return 130
    return 0


def ensure(kind: str, root: Path) -> None:
    """Leave `<root>/.venv` complete for `kind`; does nothing, and takes no lock, when it is."""
    if is_complete(kind, root):
        return
    with locked(root):
        if not is_complete(kind, root):
            build(kind, root)


def is_complete(kind: str, root: Path) -> bool:
    return read_stamp(root).get(kind) == wanted(kind, root) and runs(root / ".venv/bin/python")


def wanted(kind: str, root: Path) -> str:
    """What the environment must have been made from: the lock files and the place (scripts hold absolute paths)."""
    digest = hashlib.sha256(str(root).encode())
    for name in LOCK_FILES[kind]:
        digest.update((root / "requirements" / name).read_bytes())
    return digest.hexdigest()


def read_stamp(root: Path) -> dict[str, str]:
    try:
        stamp = json.loads((root / ".venv/weighbridge.json").read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def runs(python: Path) -> bool:
    """Whether the interpreter is still there and starts (the Python it was made from may have been removed)."""
    try:
        return subprocess.run([python, "-I", "-c", ""], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    folder = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up of this checkout is running; waiting for it.")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def build(kind: str, root: Path) -> None:
    """Install what `kind` needs; starts anew unless an intact environment of this place can be brought up to date."""
    stamp = read_stamp(root)
    home = root / ".venv"
    if stamp.get("place") != str(root) or not runs(home / "bin/python"):
        stamp = {}
        remove(home)
    # Without its stamp, an environment whose installation is cut short is known as half-made.
    (home / "weighbridge.json").unlink(missing_ok=True)
    if not home.is_dir():
        say("Making the virtual environment .venv …")
        create(home)
    say("Installing the locked requirements (the first time takes a minute or two) …")
    install(kind, root)
    write_stamp(kind, root)


def remove(home: Path) -> None:
    try:
        if home.is_symlink() or home.is_file():
            home.unlink()
        elif home.exists():
            shutil.rmtree(home)
    except OSError as error:
        raise SetupError(f"The half-made {home} cannot be removed: {error.strerror or error}.") from error


def create(home: Path) -> None:
    try:
        venv.create(home, with_pip=True)
    except subprocess.CalledProcessError as error:
        last = last_line((error.output or b"").decode(errors="replace"))
        raise SetupError(f"The virtual environment {home} could not be made: ensurepip failed: {last}") from error
    except (OSError, shutil.Error) as error:
        raise SetupError(f"The virtual environment {home} could not be made: {error}.") from error


def install(kind: str, root: Path) -> None:
    log = root / ".venv/setup.log"
    command = [str(root / ".venv/bin/python"), "-m", "pip", "install", "--require-hashes", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off"]
    for name in LOCK_FILES[kind]:
        command += ["-r", str(root / "requirements" / name)]
    with log.open("wb") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        last = last_line(log.read_text(errors="replace"))
        raise SetupError(f"pip could not install the requirements; the log is {log}; it ends: {last}")


def last_line(text: str) -> str:
    """The last line of pip's output that says something."""
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("[notice]", "WARNING"))
    ]
    return lines[-1] if lines else "(nothing)"


def write_stamp(kind: str, root: Path) -> None:
    stamp = {"place": str(root), kind: wanted(kind, root)}
    if kind == "dev":
        # dev.txt is base and embedded and more, locked together.
        stamp["run"] = wanted("run", root)
    half = root / ".venv/weighbridge.json.new"
    half.write_text(json.dumps(stamp) + "\n")
    half.replace(root / ".venv/weighbridge.json")


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LOCK_FILES:
        sys.exit("usage: environment.py run|dev")
    sys.exit(main(sys.argv[1]))
