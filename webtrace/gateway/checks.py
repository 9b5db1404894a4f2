"""Stage 2: every check a request passes at the gateway, in order, each one function.

A check returns what it found, or raises Refusal with the error the client gets. They run in one database thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec
from django.conf import settings
from django.utils import timezone

import inference.parameters
from inference.messages import Sampling
from webtrace import breakpoints
from webtrace.client_events import ResponseCreate
from webtrace.conversations import branching
from webtrace.conversations.models import Conversation, Message, Response
from webtrace.conversations.services import ROOT, inputs
from webtrace.dispatch import holds, workers
from webtrace.dispatch.models import Worker
from webtrace.events import ErrorBody
from webtrace.gateway import limits
from webtrace.gateway.address import address_group
from webtrace.gateway.incoming import Incoming
from webtrace.gateway.principal import Principal
from webtrace.reporting.service_reports import Check

CheckName = Literal[
    "structure", "size", "authentication", "conversation access", "limit", "region", "model", "conversation data"
]  # fmt: skip
MAX_INPUT_MESSAGES = 200
LARGEST_TOP_K = 2**31 - 1  # more is the same as off, and must fit a machine word on its way to the engine
# How long after the last worker was seen a request still waits for the next one instead of being refused.
PATIENCE_FOR_WORKERS_S = 60


class Refusal(Exception):
    """The gateway says no."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        retry_after: float | None = None,
        finding: Finding | None = None,
    ) -> None:
        super().__init__(message)
        self.error = ErrorBody(code, message, field, retry_after)
        self.finding = finding or Finding(message)


class Finding(NamedTuple):
    """What a check found, for the page."""

    detail: str
    limit: int | None = None
    remaining: int | None = None
    resets_in_s: float | None = None


@dataclass
class Verdict:
    """All checks with their results, and what they loaded on the way. `error` is set when one refused."""

    incoming: Incoming
    principal: Principal
    checks: list[Check] = field(default_factory=list)
    error: ErrorBody | None = None
    conversation: Conversation | None = None  # null: a new one
    original: Response | None = None  # the response whose prompt is answered anew
    parent: Message | None = None  # null: the newest message of the conversation
    workers: list[Worker] = field(default_factory=list)  # alive, the preferred ones first; asked for once

    @cached_property
    def able(self) -> list[Worker]:
        """Workers whose model was asked for."""
        requested = self.incoming.message.model
        return [worker for worker in self.workers if workers.serves(worker.model, requested)]

    @cached_property
    def sampling(self) -> Sampling:
        """What was asked for, and where nothing was said, what the checkpoint of the model states."""
        stated = self.able[0].model_info.get("sampling", {}) if self.able else {}
        return self.incoming.message.sampling.over(msgspec.structs.replace(self.incoming.defaults, **stated))


def run_checks(incoming: Incoming, principal: Principal) -> Verdict:
    """Every check in order, timed; those behind a refusal are reported as not reached. Synchronous: uses the
    database. Consumes one answer of the principal's limit."""
    verdict = Verdict(incoming, principal)
    for name, check in CHECKS.items():
        if verdict.error is not None:
            verdict.checks.append(Check(name, None, "not reached", 0.0))
            continue
        started = time.perf_counter()
        try:
            finding, passed = check(verdict), True
        except Refusal as refusal:
            finding, passed = refusal.finding, False
            verdict.error = refusal.error
        verdict.checks.append(Check(name, passed, finding.detail, 1e3 * (time.perf_counter() - started), *finding[1:]))
    return verdict


def check_structure(verdict: Verdict) -> Finding:
    """Every field has a sensible value. (Types were checked when the frame was read.)"""
    message = verdict.incoming.message
    turns = inputs(message)
    if message.branch is not None:
        _check_branch_alone(message)
    elif not turns and message.parent_id in (None, ROOT):
        raise Refusal("invalid_value", "input must hold at least one message.", field="input")
    if turns and not turns[-1].content.strip():
        place = "input" if isinstance(message.input, str) else f"input[{len(turns) - 1}].content"
        raise Refusal("invalid_value", f"{place} must not be empty.", field=place)
    if turns and turns[-1].role == "assistant":
        raise Refusal(
            "invalid_value",
            "The last message of input must not be the assistant's.",
            field=f"input[{len(turns) - 1}].role",
        )
    verdict.workers = workers.by_preference()
    _check_sampling(verdict)
    if problem := breakpoints.problem_with(message.breakpoints, verdict.sampling.max_tokens):
        raise Refusal("invalid_value", problem.message, field=problem.field)
    roles = ", ".join(turn.role for turn in turns[:5])
    return Finding(f"{len(turns)} {'message' if len(turns) == 1 else 'messages'} ({roles}), sampling in range")


def check_size(verdict: Verdict) -> Finding:
    """Input and instructions fit, and so does the answer asked for."""
    message, principal = verdict.incoming.message, verdict.principal
    turns = inputs(message)
    if len(turns) > MAX_INPUT_MESSAGES:
        raise Refusal(
            "too_large", f"input has {len(turns)} messages; at most {MAX_INPUT_MESSAGES} are allowed.", field="input"
        )
    most = settings.MAX_INPUT_CHARACTERS
    sizes = {
        "input": sum(len(turn.content) for turn in turns),
        "instructions": len(message.instructions or ""),
    }
    for name, size in sizes.items():
        if size > most:
            raise Refusal("too_large", f"{name} has {size:,} characters; at most {most:,} are allowed.", field=name)
    if (longest := verdict.sampling.max_tokens) > principal.max_tokens:
        who = {"guest": "a guest", "user": "a user", "api key": "an API key"}[principal.kind]
        raise Refusal(
            "too_large",
            f"sampling.max_tokens is {f'{longest}'[:40]}; {who} may ask for at most {principal.max_tokens}.",
            field="sampling.max_tokens",
        )
    return Finding(f"{sizes['input']:,} of {most:,} characters; answer up to {longest} tokens")


def check_authentication(verdict: Verdict) -> Finding:
    """Who is asking. The credential itself was checked when the connection or request came in, and again now."""
    principal = verdict.principal
    if not principal.user.is_active:
        raise Refusal("unauthenticated", "This account is disabled.")
    if principal.kind == "guest":
        if not settings.GUESTS:
            raise Refusal("unauthenticated", "Guests are not admitted here; sign in.")
        return Finding("a guest, known by their browser session")
    how = "an API key" if principal.kind == "api key" else "a session"
    return Finding(f"{principal.user.get_username()}, by {how}")


def check_conversation_access(verdict: Verdict) -> Finding:
    """The conversation, or the response that is answered anew, is the principal's own, if one is named."""
    message = verdict.incoming.message
    name = message.conversation_id
    try:
        verdict.original = branching.original(
            owner=verdict.principal.user, message=message, max_tokens=verdict.sampling.max_tokens
        )
    except branching.CannotBranch as problem:
        raise Refusal(problem.code, str(problem), field=problem.field) from None
    if message.branch is not None:
        return Finding(f"owner of the answer that this one branches from, at step {message.branch.step}")
    if name is None:
        return Finding("a new conversation")
    conversation = None
    if (identifier := _uuid(name)) is not None:
        conversation = Conversation.objects.filter(id=identifier, owner=verdict.principal.user).first()
    if conversation is None:  # a stranger's and one that never was look alike
        raise Refusal("not_found", "There is no such conversation of yours.", field="conversation_id")
    verdict.conversation = conversation
    return Finding("owner of this conversation")


def check_limit(verdict: Verdict) -> Finding:
    """No more responses pause than may, and one answer is left in this hour. It is taken here."""
    _check_pausing(verdict)
    allowed, left = limits.consume(verdict.principal)
    numbers = (left.limit, left.remaining, round(left.resets_in_s, 1))
    if allowed:
        return Finding(f"{left.remaining} of {left.limit} answers an hour left after this one", *numbers)
    message = f"The limit of {left.limit} answers an hour is reached."
    retry_after = round(left.resets_in_s, 1)
    raise Refusal("rate_limited", message, retry_after=retry_after, finding=Finding(message, *numbers))


def check_region(verdict: Verdict) -> Finding:
    """Where this may be computed: the regions of the living workers."""
    regions = sorted({worker.region for worker in verdict.workers})
    here = settings.REGION
    if regions and here not in regions:
        return Finding(f"no worker in {here}; served from {', '.join(regions)}")
    return Finding(f"served in region {here}")


def check_model(verdict: Verdict) -> Finding:
    """Some worker has the model asked for, or may soon."""
    message, original = verdict.incoming.message, verdict.original
    wanted = original.model if original and message.branch else message.model
    names = sorted({worker.model for worker in verdict.workers})
    if wanted == "auto" and names:
        return Finding(f"auto: {', '.join(names)} available")
    if wanted in names:
        return Finding(f"{wanted} is available")
    if names:
        raise Refusal(
            "model_not_found", f"No worker has the model {wanted!r}; there is {', '.join(names)}.", field="model"
        )
    if _worker_expected():
        return Finding("no worker is ready yet; the request waits for one")
    raise Refusal("model_unavailable", "No worker is running; try again later.", field="model", retry_after=10)


def check_conversation_data(verdict: Verdict) -> Finding:
    """The message to answer under is there, and the conversation is not too long to read."""
    conversation, name = verdict.conversation, verdict.incoming.message.parent_id
    if name is None:
        if conversation is None:
            return Finding("nothing to load")
        return Finding(f"{conversation.messages.count()} earlier messages")
    if name == ROOT:
        return Finding("a new first turn")
    parent = None
    if conversation is not None and (identifier := _uuid(name)) is not None:
        parent = conversation.messages.filter(id=identifier).first()
    if parent is None:
        raise Refusal("not_found", "There is no such message in this conversation.", field="parent_id")
    verdict.parent = parent
    return Finding("answers under a message that is there")


CHECKS: dict[CheckName, Callable[[Verdict], Finding]] = {
    "structure": check_structure,
    "size": check_size,
    "authentication": check_authentication,
    "conversation access": check_conversation_access,
    "limit": check_limit,
    "region": check_region,
    "model": check_model,
    "conversation data": check_conversation_data,
}


def _check_branch_alone(message: ResponseCreate) -> None:
    """A branch has everything but sampling and breakpoints from the response it begins from."""
    for name in ("input", "conversation_id", "instructions", "parent_id"):
        if getattr(message, name):
            wanted = "an empty list" if name == "input" else "null"
            raise Refusal("invalid_value", f"{name} must be {wanted} where there is a branch.", field=name)


def _check_sampling(verdict: Verdict) -> None:
    sampling = verdict.sampling
    vocabularies = [size for worker in verdict.able if (size := worker.model_info.get("vocabulary"))]
    problems = inference.parameters.validate(sampling, max(vocabularies, default=2**31))
    if sampling.top_k > LARGEST_TOP_K:
        problems.append(inference.parameters.FieldError("top_k", f"must be at most {LARGEST_TOP_K}"))
    if problems:
        name = f"sampling.{problems[0].field}"
        raise Refusal("invalid_value", f"{name} {problems[0].message}.", field=name)


def _check_pausing(verdict: Verdict) -> None:
    if not verdict.incoming.message.breakpoints:
        return
    if holds.num_pausing_of(verdict.principal.user) >= (most := settings.HELD_AT_ONCE):
        message = f"{most} of your responses have breakpoints; at most {most} may at a time."
        raise Refusal("too_many_held", message, field="breakpoints")
    address = address_group(verdict.principal.address)
    if holds.num_pausing_from(address) >= (most := settings.HELD_AT_ONCE_PER_ADDRESS):
        message = f"{most} responses asked for from your address have breakpoints; at most {most} may at a time."
        raise Refusal("too_many_held", message, field="breakpoints")


def _worker_expected() -> bool:
    """Under `serve` the worker lives in this process; elsewhere one seen lately may be starting again."""
    if not settings.REDIS_URL:
        return True
    since = timezone.now() - timedelta(seconds=PATIENCE_FOR_WORKERS_S)
    return Worker.objects.filter(seen_at__gte=since).exists()


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
