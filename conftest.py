"""One hook, as a project of your own would have it: a model made in Python beside those the providers offer."""

from __future__ import annotations

from pytest_battery import FakeModel, Provider, Request


def shouting(request: Request) -> str:
    """Answers with the last line of the prompt in capitals: an upper bound for the task `shout`."""
    lines = [line for line in request.messages[-1].content.splitlines() if line.startswith("Text: ")]
    return lines[-1].removeprefix("Text: ").upper() if lines else ""


def pytest_battery_models() -> dict[str, Provider]:
    """`pytest benchmarks/shout.toml --model example/shouting` measures it."""
    return {"example": FakeModel(shouting)}
