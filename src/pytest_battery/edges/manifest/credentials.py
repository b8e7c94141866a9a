"""What looks like a credential: it never stands in a file, and is not repeated where it is refused."""

from __future__ import annotations

import re

__all__ = ["carries_credentials", "looks_like_a_key", "names_a_variable"]

_BEGINNINGS = re.compile(
    r"(?:(?:sk|pk|rk|r8|hf|gsk|xai|nvapi|pplx|glpat)[-_]|gh[opsur]_|github_pat_|xox[abprs]-|AIza|AKIA|ya29\.|eyJ)"
    r"[A-Za-z0-9_.-]{8,}"
)
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+\S", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_HEADER = re.compile(
    r"(?:.*[-_])?(?:api-?key|auth|authorization|cookie|credentials?|key|passwd|password|secret|token)\Z", re.IGNORECASE
)


def looks_like_a_key(text: str) -> bool:
    """Whether *text* begins as vendors' keys do, or as the value of an Authorization header does."""
    return _BEGINNINGS.match(text) is not None or _SCHEME.match(text) is not None


def names_a_variable(text: str) -> bool:
    """Whether *text* can be the name of a variable, and holds no long run of letters and digits mixed, as keys do."""
    runs = _RUN.findall(text)
    mixed = any(re.search("[0-9]", run) and re.search("[A-Za-z]", run) for run in runs)
    return _VARIABLE.match(text) is not None and not mixed and not looks_like_a_key(text)


def carries_credentials(header: str) -> bool:
    """Whether a header of this name is there to carry a credential."""
    return _HEADER.match(header) is not None
