"""Become another program: as another user, in a directory, and for no longer than the parent lives.

Run as a script by the supervisor in `embedded.py`, in place of `preexec_fn`, which is unsafe in a process with
threads. It imports nothing of ours, so that it starts in a few milliseconds in isolated mode.

    python -I -S launch.py PARENT UID GID DIRECTORY PROGRAM [ARGUMENT…]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def launch(parent: int, uid: int, gid: int, directory: str, command: list[str]) -> None:
    # Entered while still privileged: the new user may not be able to pass the directories above.
    os.chdir(directory)
    libc = ctypes.CDLL(None)
    if os.geteuid() != uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        # After setuid, which clears it. SIGINT is PostgreSQL's fast shutdown.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the parent died first")
    os.umask(0o077)
    # Python ignores it, and the program would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    _parent, _uid, _gid, _directory, *_command = sys.argv[1:]
    launch(int(_parent), int(_uid), int(_gid), _directory, _command)
