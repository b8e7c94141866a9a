"""Task files: TOML in, `Task` out, every fault of a file in one message."""

from pytest_battery.edges.taskfiles.loading import load_task
from pytest_battery.edges.taskfiles.prompts import Asking
from pytest_battery.edges.taskfiles.text import looks_like_a_task_file, read_text

__all__ = ["Asking", "load_task", "looks_like_a_task_file", "read_text"]
