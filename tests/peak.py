"""How much memory a process took, for tests that run one."""

from __future__ import annotations

import inspect


def peak_memory():
    """Most bytes that this process ever held. Not ru_maxrss where it can be helped: a process inherits its parent's."""
    from pathlib import Path

    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


SOURCE = inspect.getsource(peak_memory)
"""The same for the text of a script."""
