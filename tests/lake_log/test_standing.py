"""What a page says of a cycle and the transparency log."""

from __future__ import annotations

from pathlib import Path

from evenkeel.lake_log.catch_up import begin, catch_up
from evenkeel.lake_log.standing import UNSIGNED, signed_words
from evenkeel.record.report import build_report
from tests.lake_log.lakes import LOG_KEY, ORIGIN, kept_lake, publish_more, rows_of


def test_a_row_is_unsigned_then_logged_and_a_new_one_not_yet(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    last = rows_of(lake, "lab")[-1]["sequence"]
    assert signed_words(str(lake), "lab", last) == UNSIGNED
    begin(str(lake), [LOG_KEY])
    assert signed_words(str(lake), "lab", last).startswith(f"in the transparency log {ORIGIN} (12 leaves)")
    publish_more(lake, "lab")
    assert signed_words(str(lake), "lab", last + 2).startswith("not yet: ")
    catch_up(str(lake), [LOG_KEY])
    assert signed_words(str(lake), "lab", last + 2).startswith(f"in the transparency log {ORIGIN} (14 leaves)")
    (lake / "_log" / "checkpoint").write_text("other")
    assert signed_words(str(lake), "lab", last).startswith("no: the transparency log of the lake cannot be read: ")


def test_a_page_says_it(tmp_path: Path) -> None:
    lake, page = kept_lake(tmp_path), tmp_path / "page.html"
    build_report(lake, cluster="lab", out=page)
    assert UNSIGNED in page.read_text()
    begin(str(lake), [LOG_KEY])
    build_report(lake, cluster="lab", out=page)
    assert f"in the transparency log {ORIGIN}" in page.read_text()
