"""Processes of a run. None of them outlives the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        sys.exit("the parent died first")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found


def kill(pid: int) -> None:
    """A process that has ended meanwhile is as good as killed."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes], timeout: float = 10) -> None:
    """Stop a process in good order, or else kill it."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def memory_mb(pid: int) -> float:
    """What a process holds in memory now."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def may_mount() -> bool:
    """Whether a disk of its own can be made for a run: only root can, and not in every container."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as name:
        try:
            mount(Path(name), "1m")
        except (OSError, subprocess.CalledProcessError):
            return False
        unmount(Path(name))
        return True


def mount(folder: Path, size: str) -> None:
    options = ["-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs"]
    subprocess.run(["mount", *options, str(folder)], check=True, capture_output=True, timeout=10)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True, timeout=10)
