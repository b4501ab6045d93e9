"""What outlived its keeper: processes (P16) and folders.

A keeper that is killed takes Celery and its children with it, but not what a handler had started: that is orphaned to
init. It carries its keeper's mark in its environment, or, if it was forked and never became a program of its own, on the
memory that the children share; so the next keeper on this machine ends it. The folder of the node's files carries the mark too.

A pid says nothing outside of its PID namespace, and containers may share a data directory or see each other's
processes: marks of other namespaces are left alone.
"""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

import structlog

from workers import kernel

log = structlog.get_logger(__name__)

# "<PID namespace>:<pid>:<start in kernel ticks>", set by the keeper for its children.
KEEPER_VARIABLE = "WEIGHBRIDGE_KEEPER"
ATTEMPT_VARIABLE = "WEIGHBRIDGE_ATTEMPT"  # set by a child for what its handler starts: the attempt's token
_MEMORY = "weighbridge-of-"  # and the mark: the name of the memory that a keeper shares with its children
_MARK_FILE = "keeper"
# While any is found: one may have started another meanwhile, or stood between fork and exec, where it shows no mark.
_LOOKS, _LOOK_SECONDS = 100, 0.01


def myself() -> str:
    pid, started = kernel.myself()
    return f"{_namespace()}:{pid}:{started}"


def _namespace() -> str:
    """Its number, of the link's "pid:[4026531836]"."""
    return os.readlink("/proc/self/ns/pid").strip("pid:[]")


def memory_name() -> str:
    return f"{_MEMORY}{myself()}"


def end_those_of_dead_keepers() -> int:
    """The number of processes ended."""
    ended: set[int] = set()
    for _ in range(_LOOKS):
        strays = [pid for pid in kernel.all_pids() if pid != os.getpid() and _is_stray(pid)]
        if not strays:
            break
        for pid in strays:
            attempt = kernel.environment_of(pid).get(ATTEMPT_VARIABLE)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                if pid not in ended:
                    log.warning("stray_ended", pid=pid, attempt=attempt)
                ended.add(pid)
        time.sleep(_LOOK_SECONDS)  # the kernel is tearing them down
    return len(ended)


def _is_stray(pid: int) -> bool:
    """Only of our own user, though root may read everybody's environment."""
    return kernel.owner_of(pid) == os.geteuid() and _keeper_is_dead(_mark_of(pid))


def _mark_of(pid: int) -> str:
    """Empty for a process that carries none. An environment is shown as it was when the process became its program."""
    in_environment = kernel.environment_of(pid).get(KEEPER_VARIABLE)
    on_memory = (name.removeprefix(_MEMORY) for name in kernel.memory_of(pid) if name.startswith(_MEMORY))
    return in_environment or next(on_memory, "")


def _keeper_is_dead(mark: str) -> bool:
    """False for what is no mark, or one that cannot be judged from here."""
    namespace, _, process = mark.partition(":")
    pid, _, started = process.partition(":")
    if namespace != _namespace() or not (pid.isdigit() and started.isdigit()):
        return False
    return not kernel.is_alive(int(pid), int(started))


def make_folder(folder: Path) -> None:
    """A node's folder, with its keeper's mark in it from the start."""
    draft = folder.with_name(f".{folder.name}")
    draft.mkdir(mode=0o700, parents=True)
    (draft / _MARK_FILE).write_text(myself())
    draft.rename(folder)


def remove_folders_of_dead_keepers(nodes: Path) -> int:
    """The number removed from the folder of all nodes' folders."""
    dead = [mark.parent for mark in nodes.glob(f"*/{_MARK_FILE}") if _keeper_is_dead(_text(mark))]
    for folder in dead:
        shutil.rmtree(folder, ignore_errors=True)
        log.info("folder_of_a_dead_keeper_removed", folder=folder.name)
    return len(dead)


def _text(mark: Path) -> str:
    try:
        return mark.read_text()
    except OSError:  # its keeper stops just now, and removes it
        return ""
