"""What anybody may send without an account costs a line of the log, not a page."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.parametrize(
    ("address", "headers"),
    [("/", {"Host": "elsewhere.example"}), (f"/accounts/signup/?{'a=1&' * 2000}", {})],
    ids=["unknown host", "too many fields"],
)
def test_it_is_told_in_one_line(
    db: None, caplog: pytest.LogCaptureFixture, address: str, headers: dict[str, str]
) -> None:
    assert Client(headers=headers).get(address).status_code == 400
    told = [record for record in caplog.records if record.name.startswith("django.security")]
    assert len(told) == 1
    assert told[0].exc_info is None
