"""What a measurement depends on, in named parts, so that a difference can be named too."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["PARTS", "Fingerprint"]

PARTS = ("prompt", "case", "corpus", "stack", "model")


class Fingerprint(BaseModel):
    """Digests of content, never of accidents: no path, port, date or dict order is in them.

    ``prompt``: the rendered messages and output schema.  ``case``: the fields of the case that the prompt reads.
    ``corpus``, ``stack``: their content, empty where there is none.  ``model``: what the provider says identifies
    the model beyond its name (local weights, template, slots, threads), empty for a hosted one.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    prompt: str
    case: str
    corpus: str = ""
    stack: str = ""
    model: str = ""

    def changed(self, other: Fingerprint) -> tuple[str, ...]:
        """The parts in which the two differ, in the order of `PARTS`."""
        if (self.prompt, self.case, self.corpus, self.stack, self.model) == (
            other.prompt,
            other.case,
            other.corpus,
            other.stack,
            other.model,
        ):
            return ()  # what nearly every record of a large store comes to
        return tuple(part for part in PARTS if getattr(self, part) != getattr(other, part))
