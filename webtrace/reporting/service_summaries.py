"""What each stage of the service says about a request: one line of input, operation and output with its own values,
and its report. The stages inside the model speak in `webtrace.reporting.model_summaries`."""

from __future__ import annotations

import secrets
from itertools import islice
from typing import Any

import msgspec

from inference.messages import Sampling
from inference.parameters import MAX_BIASES, MAX_STOP_LENGTH, MAX_STOPS
from webtrace import prompt as prompts
from webtrace.client_events import Branch
from webtrace.conversations.models import Response
from webtrace.dispatch.routing import Choice
from webtrace.dispatch.workers import serves
from webtrace.gateway.checks import Verdict
from webtrace.gateway.incoming import Incoming
from webtrace.prompt import Prompt
from webtrace.reporting import model_reports, service_reports
from webtrace.reporting.timing import Account
from webtrace.safety.decisions import Judgement

_BLANKS = str.maketrans({"\n": "↵", "\r": "↵", "\t": "⇥"})  # as the page marks them in tokens


def recorded(sampling: Sampling) -> Sampling:
    """The sampling parameters as they are kept and shown: with a seed, drawn here where the user gave none, and only
    the beginning of lists past their limits (for which the request is refused)."""
    return msgspec.structs.replace(
        sampling,
        seed=secrets.randbelow(2**32) if sampling.seed is None else sampling.seed,
        logit_bias=dict(islice(sampling.logit_bias.items(), MAX_BIASES)),
        stop=[stop[:MAX_STOP_LENGTH] for stop in sampling.stop[:MAX_STOPS]],
    )


def created(response: Response, sampling: Sampling) -> dict[str, Any]:
    """The fields of `response.created`."""
    turn = response.user_message
    return {
        "event_id": response.event_id,
        "conversation_id": str(response.conversation_id) if response.conversation_id else None,
        "message_id": str(turn.pk) if turn else None,
        "answer_id": str(response.answer_id) if response.answer_id else None,
        "parent_id": str(turn.parent_id) if turn and turn.parent_id else None,
        "title": response.conversation.title if response.conversation else None,
        "model": response.requested_model,
        "sampling": sampling,
        "created_at": response.created_at.isoformat(),
        "branch": msgspec.convert(response.request.get("branch"), Branch | None),
    }


# ---------------------------------------------------------------- before the model


def request(incoming: Incoming) -> Account:
    data = incoming.report()
    account = Account()
    form = "JSON frame" if data.transport == "websocket" else "HTTP request"
    account.say(
        input=_typed(incoming),
        operation=f"read one {form} of {data.num_bytes:,} bytes",
        output=f"a message of type {incoming.message.__struct_config__.tag}, id {incoming.message.event_id[:40]}",
        data=data,
    )
    return account


def _typed(incoming: Incoming) -> str:
    given = incoming.message.input
    if branch := incoming.message.branch:
        return f"no new text: an earlier answer, with another token at step {branch.step}"
    if not given:
        return "no new text: the same message, to be answered again"
    if isinstance(given, str):
        return f"{counted(len(given), 'character')}: {shorten(given)}"
    return f"{counted(len(given), 'message')}, {counted(sum(len(one.content) for one in given), 'character')}"


def gateway(account: Account, verdict: Verdict) -> None:
    passed = sum(check.passed is True for check in verdict.checks)
    output = f"admitted for {verdict.principal.user.get_username()}"
    if verdict.error is not None:
        output = f"refused: {verdict.error.message}"
        account.outcome = "ended_here"
    account.say(
        input=f"request {verdict.incoming.message.event_id[:40]} from {_article(verdict.principal.kind)}",
        operation=f"{counted(len(verdict.checks), 'check')} in order, {passed} passed",
        output=output,
        data=service_reports.GatewayReport(
            request_id=verdict.incoming.message.event_id,
            principal=verdict.principal.kind,
            checks=verdict.checks,
            refused=verdict.error.code if verdict.error else None,
        ),
    )


def retrieval(account: Account, *, asked: bool) -> None:
    reason = "no document collection is set up on this service" if asked else "not asked for in this request"
    account.outcome = "skipped"
    account.say(
        input="your message",
        operation="none: retrieval is off",
        output=reason,
        data=service_reports.RetrievalReport(enabled=False, reason=reason),
    )


def prompt(account: Account, made: Prompt) -> None:
    data = prompts.report(made)
    parts = sum(not segment.is_marker for segment in made.segments)
    dropped = f", {counted(len(made.dropped), 'earlier message')} left out" if made.dropped else ""
    account.say(
        input=f"{counted(parts, 'text')} to put together{dropped}",
        operation="fill the checkpoint's chat template",
        output=f"{data.num_tokens:,} tokens of {data.context_length:,}; {data.room_for_answer:,} left for the answer",
        data=data,
    )


def prompt_too_long(account: Account, problem: prompts.PromptTooLong) -> None:
    account.say(
        input=f"{problem.num_tokens:,} tokens without any history",
        output=str(problem),
        data=service_reports.PromptReport([], problem.num_tokens, problem.context_length, 0, []),
    )


def input_safety(account: Account, judgement: Judgement, text: str) -> None:
    account.say(
        input=f"{counted(len(text), 'character')} of yours",
        operation=judgement.technique,
        output=f"{judgement.decision}: {judgement.reason}",
        data=judgement.input_report(),
    )
    if not judgement.passes:
        account.outcome = "ended_here"


def routing(choice: Choice, response: Response) -> Account:
    able = sum(serves(row.model, response.requested_model) for row in choice.candidates)
    account = Account()
    account.say(
        input=f"model {response.requested_model}; {counted(len(choice.candidates), 'living worker')}",
        operation=f"compare those that have the model ({able})",
        output=choice.reason,
        data=service_reports.RoutingReport(
            requested_model=response.requested_model,
            model=response.model,
            fingerprint=response.fingerprint,
            workers=choice.candidates,
            reason=choice.reason,
            queue_ms=response.queue_ms or 0.0,
        ),
    )
    return account


# ---------------------------------------------------------------- back to you


def detokenize(data: model_reports.DetokenizeReport) -> Account:
    account = Account()
    account.say(
        input=counted(data.num_tokens, "token id"),
        operation=f"{counted(data.num_bytes, 'byte')}, UTF-8; {counted(data.num_held_back, 'step')} held some back",
        output=counted(data.num_characters, "character"),
        data=data,
    )
    return account


def output_safety(data: service_reports.OutputSafetyReport) -> Account:
    withheld = data.num_characters_withheld
    num_characters = data.num_characters_released + withheld
    account = Account()
    account.say(
        input=f"{counted(num_characters, 'character')} in {counted(len(data.windows), 'window')}",
        operation=f"{data.technique}: window by window",
        output=f"{counted(data.num_characters_released, 'character')} released, {withheld:,} withheld",
        data=data,
    )
    if withheld:
        account.outcome = "ended_here"
    return account


def stream(data: service_reports.StreamReport) -> Account:
    first = "no text" if data.time_to_first_token_ms is None else f"first after {_seconds(data.time_to_first_token_ms)}"
    speed = f", {data.tokens_per_second:.3g} tokens/s" if data.tokens_per_second else ""
    account = Account()
    account.say(
        input=f"{counted(data.num_bytes, 'byte')} of text",
        operation=f"sent in {counted(data.num_chunks, 'piece')}",
        output=f"{first}{speed}, {_seconds(data.end_to_end_ms)} in all",
        data=data,
    )
    return account


def storage(account: Account, data: service_reports.StorageReport) -> None:
    total = sum(row.num_bytes or 0 for row in data.rows)
    account.say(
        input="the finished response",
        operation=f"write {counted(len(data.rows), 'kind')} of rows in one transaction",
        output=f"{counted(total, 'byte')}, open to staff in the admin",
        data=data,
    )


def shorten(text: str, length: int = 60) -> str:
    """A text in quotes, on one line."""
    shown = text if len(text) <= length else f"{text[: length - 1]}…"
    return f"“{shown.translate(_BLANKS)}”"


def counted(number: int, noun: str) -> str:
    """`1 byte`, `1,024 bytes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _seconds(ms: float) -> str:
    """Three digits, in milliseconds below a second."""
    return f"{ms:.3g}\u202fms" if ms < 1000 else f"{ms / 1000:.3g}\u202fs"


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"
