"""Sizes as people write them; the same units as on the command line (src/base/units.cc)."""

import re

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "KB": 10**3, "kB": 10**3, "M": 1 << 20, "MiB": 1 << 20,
          "MB": 10**6, "G": 1 << 30, "GiB": 1 << 30, "GB": 10**9, "T": 1 << 40, "TiB": 1 << 40, "TB": 10**12}


def parse_bytes(size):
    """Raises ValueError for what is no size."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if not found or found[2] not in _UNITS:
        raise ValueError(f"'{size}' is not a size; write for example 40GiB")
    return round(float(found[1]) * _UNITS[found[2]])
