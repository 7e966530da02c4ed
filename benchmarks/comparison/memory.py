"""The highest resident memory of this process while something ran."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PeakMemory"]

_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


class PeakMemory:
    """Reads the kernel's high-water mark, which can be set back on Linux; elsewhere the peak is None."""

    def begin(self) -> None:
        """Set it back to what is resident now."""
        try:
            _RESET.write_text("5")
        except OSError:
            self._known = False
        else:
            self._known = True

    def end(self) -> float | None:
        """Megabytes at most since `begin`."""
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text()) if self._known else None
        return int(found.group(1)) / 1e3 if found else None
