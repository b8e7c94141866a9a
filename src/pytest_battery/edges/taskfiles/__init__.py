"""Task files: TOML in, `Task` out, every fault of a file in one message."""

from pytest_battery.edges.taskfiles.loading import load_task, read_scorer
from pytest_battery.edges.taskfiles.production import production_function, source_of
from pytest_battery.edges.taskfiles.prompts import Asking
from pytest_battery.edges.taskfiles.text import KeyLines, in_order, looks_like_a_task_file, read_text

__all__ = [
    "Asking",
    "KeyLines",
    "in_order",
    "load_task",
    "looks_like_a_task_file",
    "production_function",
    "read_scorer",
    "read_text",
    "source_of",
]
