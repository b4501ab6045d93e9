"""Becomes supervisord, tied to the launcher: `python -m stack.tether <launcher's pid> <supervisord's configuration>`.

The kernel sends supervisord TERM when the launcher dies, however that happens, and supervisord then stops everything in
order. (The signal is tied to the launcher's thread that started us; the launcher does it from its main thread.)
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(launcher: int, configuration: str) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The launcher may have died before the line above.
    if os.getppid() != launcher:
        sys.exit(1)
    # Logs and whatever the programs write are for their owner alone.
    os.umask(0o077)
    from supervisor import supervisord

    supervisord.main(["-n", "-c", configuration])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
