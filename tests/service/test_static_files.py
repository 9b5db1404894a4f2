"""What is sent for a static file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from webtrace.published import publish
from webtrace.static_files import StaticFilesMiddleware

OURS = Path(__file__).parents[2] / "static"
SCRIPT = "js/parts.js"


def answer(settings: LazySettings, folder: Path, url: str, **headers: str) -> HttpResponse:
    settings.DATA_DIR = folder

    def nothing(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=404)

    response: HttpResponse = StaticFilesMiddleware(nothing)(RequestFactory().get(url, headers=headers))
    return response


def body(response: HttpResponse) -> bytes:
    return b"".join(response)


def test_it_is_compressed_for_who_can_read_that(settings: LazySettings, tmp_path: Path) -> None:
    response = answer(settings, tmp_path, f"/static/{SCRIPT}", accept_encoding="gzip")
    assert response["Content-Encoding"] == "gzip"
    assert gzip.decompress(body(response)) == (OURS / SCRIPT).read_bytes()


def test_while_developing_it_is_sent_from_its_source(settings: LazySettings, tmp_path: Path) -> None:
    settings.DEBUG = True
    response = answer(settings, tmp_path, f"/static/{SCRIPT}")
    assert body(response) == (OURS / SCRIPT).read_bytes()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [SCRIPT, "plotly/plotly.min.js", "admin/js/core.js"])
def test_a_file_is_sent_as_it_is_written(settings: LazySettings, tmp_path: Path, name: str) -> None:
    found = finders.find(name)
    assert found is not None
    assert body(answer(settings, tmp_path, f"/static/{name}")) == Path(found).read_bytes()


def test_a_file_that_is_edited_while_the_site_runs_goes_on_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "a.js"
    script.write_text("export const one = 1; // one\n")
    before = publish(script, tmp_path / "published")
    sent = before.read_bytes()
    script.write_text("export const two = 2; // two\n")
    after = publish(script, tmp_path / "published")
    assert before.read_bytes() == sent
    assert after != before
    assert b"two" in after.read_bytes()
