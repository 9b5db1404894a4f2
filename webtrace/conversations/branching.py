"""Answering a prompt that was answered before: once more, or from one of its tokens on with another in its place."""

from __future__ import annotations

from uuid import UUID

from inference.text import Tokenizer
from webtrace.accounts.models import User
from webtrace.client_events import Branch, ResponseCreate
from webtrace.conversations import selectors
from webtrace.conversations.models import Response


class CannotBranch(ValueError):
    """There is no such answer to begin from, or it cannot be begun from there. `field` is the request's."""

    def __init__(self, message: str, field: str = "branch.response_id", code: str = "invalid_value") -> None:
        super().__init__(message)
        self.field = field
        self.code = code


def original(*, owner: User, message: ResponseCreate, max_tokens: int) -> Response | None:
    """The response whose prompt this request wants answered anew; null when it brings messages of its own. An answer
    may have `max_tokens`.

    Raises CannotBranch.
    """
    if message.branch is not None:
        return _branched(owner, message.branch, max_tokens)
    if message.input:
        return None
    return _answered(owner, message.parent_id)


def _branched(owner: User, branch: Branch, max_tokens: int) -> Response:
    try:
        found = selectors.response(owner=owner, response_id=UUID(branch.response_id))
    except (ValueError, Response.DoesNotExist):
        raise CannotBranch("There is no such response of yours.", code="not_found") from None
    num_released = len(found.token_ids) - found.num_prompt_tokens
    if found.status in Response.ACTIVE:
        raise CannotBranch("branch.response_id: this answer is not finished; stop it, or wait for its end.")
    if num_released < 1:
        raise CannotBranch("branch.response_id: this answer has no token that was released.")
    if not 0 <= branch.step < num_released:
        raise CannotBranch(f"branch.step must be from 0 to {num_released - 1}, not {branch.step}.", "branch.step")
    if branch.token < 0:
        raise CannotBranch(f"branch.token must be at least 0, not {branch.token}.", "branch.token")
    if max_tokens <= branch.step:
        raise CannotBranch(
            f"sampling.max_tokens must be at least {branch.step + 1} to branch at step {branch.step}, "
            f"not {max_tokens}.",
            "sampling.max_tokens",
        )
    return found


def _answered(owner: User, message_id: str | None) -> Response:
    """The newest response to a message that was answered before."""
    try:
        answers = Response.objects.filter(owner=owner, user_message=UUID(message_id or ""))
    except ValueError:
        answers = Response.objects.none()
    found = answers.order_by("created_at").last()
    if found is None:
        raise CannotBranch("parent_id names no message of yours that was answered before.", "parent_id", "not_found")
    return found


def given_tokens(response: Response, prompt: list[int], tokenizer: Tokenizer) -> list[int]:
    """The tokens a response's answer begins with as they are: those before the branch, and the chosen one.

    `prompt` is the prompt as it is now; another one than the branched answer had would not be a branch of it.
    Raises CannotBranch.
    """
    branch = response.request.get("branch")
    if branch is None:
        return []
    before = Response.objects.filter(pk=branch["response_id"]).first()
    if before is None:
        raise CannotBranch("branch.response_id: this answer has been deleted.", code="not_found")
    size = before.num_prompt_tokens
    if before.token_ids[:size] != prompt:
        raise CannotBranch(
            "branch.response_id: the same request makes another prompt today (its instructions, the model or its "
            "template have changed), so the answer cannot go on from there. Ask for it again instead."
        )
    token = branch["token"]
    if token >= len(tokenizer):
        raise CannotBranch(f"branch.token must be from 0 to {len(tokenizer) - 1}, not {token}.", "branch.token")
    if tokenizer.is_control(token) and token not in tokenizer.end_ids:
        raise CannotBranch(
            f"branch.token: {tokenizer.token_text(token)} is a control token, which no answer may hold.",
            "branch.token",
        )
    return [*before.token_ids[size:][: branch["step"]], token]
