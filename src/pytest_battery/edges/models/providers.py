"""The providers: where each is, which API it speaks, and where its key comes from."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_battery.errors import ProviderError

__all__ = ["BUILT_IN", "UNAVAILABLE", "Credential", "ProviderConfig"]


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """``base_url`` is what the API's paths are put behind.  ``key_env`` names the variable that holds the key,
    ``key_command`` a command that prints a token; neither for a server that wants none.  ``price`` is declared, in USD per
    million tokens.  ``vertex`` names the variables of Google's project and location.
    """

    name: str
    api: str
    base_url: str
    key_env: str | None = None
    key_command: tuple[str, ...] = ()
    price: Mapping[str, float] | None = field(default=None, hash=False)
    max_in_flight: int | None = None
    dialect: str | None = None
    stream: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    vertex: tuple[str, str] | None = None


BUILT_IN: Mapping[str, ProviderConfig] = {
    config.name: config
    for config in (
        ProviderConfig("openai", "openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ProviderConfig("openai-responses", "openai-responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ProviderConfig("anthropic", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ProviderConfig("google", "google", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"),
        ProviderConfig(
            "openrouter", "openai-chat", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", dialect="openrouter"
        ),
        ProviderConfig(
            "vertex-anthropic",
            "anthropic",
            "https://{location}-aiplatform.googleapis.com",
            key_command=("gcloud", "auth", "print-access-token"),
            vertex=("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
        ),
        ProviderConfig("ollama", "openai-chat", "http://127.0.0.1:11434/v1", dialect="ollama"),
        ProviderConfig("vllm", "openai-chat", "http://127.0.0.1:8000/v1", dialect="vllm"),
        ProviderConfig("llamacpp", "openai-chat", "http://127.0.0.1:8080/v1", dialect="llamacpp"),
    )
}

UNAVAILABLE: Mapping[str, str] = {
    "bedrock": "Amazon Bedrock signs its requests in another way, and is not built in; Anthropic's models are asked as "
    "anthropic/... or, at Google, as vertex-anthropic/...",
    "azure": "Azure has a URL for each deployment; declare it in battery.toml: [providers.NAME] api, base_url, key_env",
}
"""Providers people will try, and what to do instead."""


class Credential:
    """A key, read when it is first needed, and never shown."""

    def __init__(self, config: ProviderConfig, environ: Mapping[str, str] = os.environ) -> None:
        self._config, self._environ = config, environ
        self._token: str | None = None

    def __repr__(self) -> str:
        return f"<the credential of {self._config.name}>"

    def known(self) -> Mapping[str, str]:
        """The value by the name of where it comes from, as far as it was read."""
        config = self._config
        if config.key_env is not None:
            found = self._environ.get(config.key_env, "").strip()
            return {config.key_env: found} if found else {}
        return {} if self._token is None else {f"{config.name} token": self._token}

    def value(self) -> str | None:
        """None where the provider wants none.  Raises `ProviderError` where one is wanted and not there."""
        config = self._config
        if config.key_env is not None:
            found = self._environ.get(config.key_env, "").strip()
            if not found:
                raise ProviderError(
                    f"{config.name}: the variable {config.key_env} holds no key; set it to the provider's key"
                )
            return found
        if not config.key_command:
            return None
        if self._token is None:
            self._token = self._printed(config.key_command)
        return self._token

    def _printed(self, command: tuple[str, ...]) -> str:
        shown = shlex.join(command)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProviderError(f"{self._config.name}: key_command {shown} cannot be run: {error}") from None
        token = done.stdout.strip()
        if done.returncode or not token:
            said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
            raise ProviderError(f"{self._config.name}: key_command {shown} printed no token; it said: {said[0][:200]}")
        return token
