"""mini-swe-agent: one tool, a shell, and no more.

What it printed is for people; what happened is in its trajectory, a file in the agent's directory.  It ends where the model
runs ``echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT``, and what that command prints after it is the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_battery.edges.agents.launches import Brick, Kind, Launch, Start, Told, fault_of, level_of
from pytest_battery.edges.agents.packages import PIP
from pytest_battery.edges.agents.seeding import context_of, file_brick, write
from pytest_battery.edges.agents.streams import Odd, at, clean, count, excerpt, no_end, text_at
from pytest_battery.edges.agents.taking import take_file
from pytest_battery.values.usage import Usage

__all__ = ["MiniSweAgent"]

_KINDS: tuple[Kind, ...] = ("context",)
_MOST_ARGUMENT = 120_000  # bytes; Linux takes 128 KiB in one argument
_SYSTEM = "You are a helpful assistant that can interact with a computer."  # as in its own mini.yaml
_NOT_YAML = re.compile("[^\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_MOST_TRAJECTORY = 64 * 2**20


class MiniSweAgent:
    """mini-swe-agent speaks chat completions, without streams."""

    name = "mini-swe-agent"
    apis = ("openai-chat",)
    bricks = _KINDS
    version = PIP["mini-swe-agent"].version

    def fault(self, launch: Launch) -> str | None:
        if fault := fault_of(self.name, launch, apis=self.apis, kinds=_KINDS, shape=_shape):
            return fault
        if launch.tools is not None and launch.tools != ("bash",):
            return "mini-swe-agent has the tool bash and no other: leave tools out"
        if (size := len(launch.prompt.encode("utf-8", "surrogatepass"))) > _MOST_ARGUMENT:
            return (
                f"mini-swe-agent is given its prompt as an argument, of at most {_MOST_ARGUMENT} bytes; this has {size}"
            )
        return None

    def start(self, launch: Launch) -> Start:
        own, directory = launch.inside_dir, launch.install / PIP[self.name].executable
        write(launch.agent_dir / "battery.yaml", _yaml(_config(launch)))
        return Start(
            argv=(
                f"{launch.inside_install}/{PIP[self.name].executable}",
                *("-m", "minisweagent.run.mini", "-c", "mini.yaml", "-c", f"{own}/battery.yaml"),
                *("-m", f"openai/{launch.model}", "--exit-immediately", "-o", f"{own}/traj.json"),
                f"--task={launch.prompt}",
            ),
            environment={
                "MSWEA_GLOBAL_CONFIG_DIR": own,
                "MSWEA_CONFIGURED": "true",
                "MSWEA_SILENT_STARTUP": "1",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": str(1 + launch.retries),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "OPENAI_API_KEY": launch.key,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            mounts=(
                (directory.parent.parent, f"{launch.inside_install}/{self.name}"),
                *_python_of(directory),
            ),
        )

    def expected(self, launch: Launch) -> Mapping[str, Any]:
        return {name: value for name, value in _model_settings(launch).items() if name in _ON_THE_WIRE}

    def told(self, launch: Launch, stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> Told:
        odd = Odd()
        trajectory = _trajectory(launch.agent_dir, odd)
        info = at(trajectory, "info")
        status = text_at(info, "exit_status") or ""
        messages = [m for m in at(trajectory, "messages") or [] if isinstance(m, Mapping)] if trajectory else []
        answers = [message for message in messages if at(message, "role") == "assistant"]
        ended = bool(status) and bool(messages) and at(messages[-1], "role") == "exit"
        calls = count(info, "model_stats", "api_calls")
        if calls is not None and calls < len(answers):
            odd.line(1, f"the trajectory has {len(answers)} answers of {calls} calls")
        if not ended:
            error: str | None = no_end(stdout, stderr, exit_code, timed_out)
        elif status != "Submitted":
            error = f"{status}: {excerpt(text_at(messages[-1], 'content') or '', 400)}"
        else:
            error = f"it exited with {exit_code} after its submission" if exit_code else None
        choices = at(answers[-1], "extra", "response", "choices") if answers else None
        reason = text_at(choices[0], "finish_reason") if isinstance(choices, list) and choices else None
        return Told(
            final_text=(text_at(info, "submission") or "").strip(),
            ended=ended,
            error=error,
            stop="stop" if ended and error is None else "length" if ended and reason == "length" else None,
            turns=len(answers) if trajectory is not None else None,
            usage=_usage(answers),
            forged=odd.forgeries,
            notes=odd.notes,
        )


_ON_THE_WIRE = ("reasoning_effort", "max_tokens")


def _config(launch: Launch) -> dict[str, Any]:
    agent: dict[str, Any] = {"mode": "yolo", "cost_limit": 0}
    texts = [text for text in (launch.system or _SYSTEM, context_of(launch), launch.append) if text]
    if texts != [_SYSTEM]:
        # It is a template: as a constant in it, no text is taken for one.
        agent["system_template"] = "{{ " + json.dumps("\n\n".join(texts), ensure_ascii=False) + " }}"
    return {"agent": agent, "model": {"model_kwargs": _model_settings(launch)}}


def _yaml(document: Any) -> str:
    """JSON is YAML, but for characters that YAML takes for ends of lines, or not at all."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def _model_settings(launch: Launch) -> dict[str, Any]:
    level = level_of(launch)
    found: dict[str, Any] = {
        "api_base": f"{launch.base_url}/v1",
        "drop_params": False,
        "num_retries": 0,
        "timeout": 900,
    }
    if level is not None and level != "off":
        found |= {"reasoning_effort": level, "allowed_openai_params": ["reasoning_effort"]}
    if "max_tokens" in launch.knobs:
        found["max_tokens"] = int(launch.knobs["max_tokens"])
    return found


def _python_of(executable: Path) -> tuple[tuple[Path, str], ...]:
    """The installation of Python behind a virtual environment, if it isn't the system's: it is found by its path."""
    base = executable.resolve().parent.parent
    return () if base == Path("/usr") or not executable.exists() else ((base, str(base)),)


def _trajectory(directory: Path, odd: Odd) -> Mapping[str, Any] | None:
    content = take_file(directory, "traj.json", _MOST_TRAJECTORY, odd)
    if content is None:
        return None
    try:
        found = json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        odd.note("the trajectory is no JSON")
        return None
    if not isinstance(found, Mapping) or not isinstance(found.get("messages"), list):
        odd.line(1, f"no trajectory: {clean(excerpt(str(found)))}")
        return None
    return found


def _usage(answers: list[Mapping[str, Any]]) -> Usage:
    total: Usage | None = None
    for answer in answers:
        usage = at(answer, "extra", "response", "usage")
        whole, cached = count(usage, "prompt_tokens"), count(usage, "prompt_tokens_details", "cached_tokens")
        one = Usage(
            input=None if whole is None else max(0, whole - (cached or 0)),
            cache_read=cached,
            cache_write=0 if cached is not None else None,
            output=count(usage, "completion_tokens"),
            reasoning=count(usage, "completion_tokens_details", "reasoning_tokens"),
        )
        total = one if total is None else total + one
    return total or Usage()


def _shape(brick: Brick) -> str | None:
    return file_brick(brick)
