"""The providers: where each is, which API it speaks, and where its key comes from."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

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

    def identity(self) -> dict[str, Any]:
        """What answers under this name, beyond the name; empty for a provider that is built in.

        An address on this machine is an accident, as its port is; another host, path, API, dialect or header is another
        provider, whatever it is called.
        """
        built_in = BUILT_IN.get(self.name)
        told = self._told()
        return {} if built_in is not None and told == built_in._told() else told

    def _told(self) -> dict[str, Any]:
        url = urlsplit(self.base_url)
        host = "this machine" if url.hostname in ("localhost", "127.0.0.1", "::1") else url.hostname
        return {
            "api": self.api,
            "dialect": self.dialect,
            "where": f"{host}{url.path.rstrip('/')}",
            "headers": {name.lower(): value for name, value in self.headers.items()},
        }


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
        self._tokens: list[str] = []  # the last is the one in use; those before it may stand in what was written
        self._refused: set[str] = set()  # those that the command prints although they are refused

    def __repr__(self) -> str:
        return f"<the credential of {self._config.name}>"

    def known(self) -> Mapping[str, str]:
        """The values by the name of where they come from, as far as they were read."""
        config = self._config
        if config.key_env is not None:
            found = self._environ.get(config.key_env, "").strip()
            return {config.key_env: found} if found else {}
        names = [f"{config.name} token", *(f"{config.name} token {count}" for count in range(2, len(self._tokens) + 1))]
        return dict(zip(names, self._tokens, strict=False))

    def value(self) -> str | None:
        """None where the provider wants none.  Raises `ProviderError` where one is wanted and not there."""
        config = self._config
        if config.key_env is not None:
            found = self._environ.get(config.key_env, "").strip()
            if not found:
                raise ProviderError(
                    f"{config.name}: the variable {config.key_env} holds no key; set it to the provider's key"
                )
            return self._sendable(found, f"the variable {config.key_env}")
        if not config.key_command:
            return None
        if not self._tokens:
            self._tokens.append(self._printed(config.key_command))
        return self._tokens[-1]

    def renewed(self, refused: str | None) -> bool:
        """Run the command again, for a token that was good and is now *refused*: most live an hour.

        Whether another one is there, perhaps since others asked.  Raises `ProviderError` where the command fails.
        """
        if not self._config.key_command or refused is None or refused in self._refused:
            return False
        if self._tokens[-1:] == [refused]:
            printed = self._printed(self._config.key_command)
            if printed == refused:
                self._refused.add(refused)
                return False
            self._tokens.append(printed)
        return True

    def _sendable(self, value: str, where: str) -> str:
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ProviderError(
                f"{self._config.name}: {where} holds something with blanks or characters that no key has; copy the key anew"
            )
        return value

    def _printed(self, command: tuple[str, ...]) -> str:
        shown = shlex.join(command)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired, UnicodeError) as error:
            raise ProviderError(f"{self._config.name}: key_command {shown} cannot be run: {error}") from None
        token = done.stdout.strip()
        if done.returncode or not token:
            said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
            raise ProviderError(f"{self._config.name}: key_command {shown} printed no token; it said: {said[0][:200]}")
        return self._sendable(token, f"what key_command {shown} printed")
