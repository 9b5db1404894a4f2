"""Writes of the safety app."""

from __future__ import annotations

import hashlib
from uuid import UUID

import msgspec

from webtrace.safety.decisions import Judgement
from webtrace.safety.models import EXCERPT_CHARACTERS, SafetyDecision
from webtrace.safety.personal_data import redact


def record_decision(*, response_id: UUID, judgement: Judgement, text: str, start: int = 0) -> SafetyDecision:
    """Store a judgement of `text`, which begins at character `start` of the input or of the answer."""
    return SafetyDecision.objects.create(
        response_id=response_id,
        direction=judgement.direction,
        window_from=start,
        window_to=start + len(text),
        decision=judgement.decision,
        reason=judgement.reason,
        scores=msgspec.to_builtins(judgement.scores),
        rules=msgspec.to_builtins(judgement.rules),
        technique=judgement.technique,
        version=judgement.version,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        excerpt=excerpt(text),
    )


def excerpt(text: str) -> str:
    """The beginning of a text on one line, personal data blacked out."""
    line = " ".join(redact(text).replace("\0", " ").split())
    return line if len(line) <= EXCERPT_CHARACTERS else line[:EXCERPT_CHARACTERS] + "…"
