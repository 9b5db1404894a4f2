"""Stage 27: what of a response is in the database."""

from __future__ import annotations

from webtrace.conversations import log
from webtrace.conversations.models import Response
from webtrace.reporting.service_reports import StorageReport, StoredRow
from webtrace.running.recorder import Recording


def report(response: Response, recording: Recording) -> StorageReport:
    """What is there, or will be in the transaction of the end."""
    size_of_text = len(recording.text.encode())
    rows = [
        StoredRow("response", "the answer's text, beside status, parameters, token ids and times", size_of_text),
        StoredRow("event log", f"events up to now, compressed ({recording.place.number} of this epoch)",
                  log.num_bytes(response.pk)),
    ]  # fmt: skip
    if response.conversation_id is not None:
        size = sum(len(one["content"].encode()) for one in response.request["input"])
        rows.insert(0, StoredRow("message", "what you wrote", size))
        rows.insert(1, StoredRow("message", "the answer", size_of_text))
    rows.append(StoredRow("safety decision", "the judgement of what you wrote, for review"))
    return StorageReport(
        rows=rows,
        redacted=["cookies and keys in the request's headers"],
        admin_path=f"/admin/conversations/response/{response.pk}/change/",
    )
