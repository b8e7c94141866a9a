"""What every test may use."""

from __future__ import annotations

import os

pytest_plugins = ["pytester"]

# Tests start many Python processes; without bytecode each of them would compile everything anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
