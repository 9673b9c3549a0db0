"""One line on a terminal, written anew; lines now and then in a file; how far a window is, in words."""

import io
import logging
import threading

import pytest

from evenkeel.cli import output
from evenkeel.cli.output import (
    ProgressLine,
    VisibleStream,
    busy_with,
    course_of,
    course_text,
    duration,
    is_screen,
    log_to_stderr,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def screen(written: str) -> list[str]:
    """What a terminal shows of it: a line that is cleared begins anew."""
    return [line.rpartition("\r\x1b[K")[2] for line in written.split("\n")]


def test_a_terminal_shows_the_last_text_alone_with_other_output_above_it() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    for text in ("a long first text", "second"):
        line.show(text)
    with line.aside():
        terminal.write("a result\n")
    line.show("third")
    line.end()
    assert screen(terminal.getvalue()) == ["a result", "third", ""]


def test_a_name_in_the_text_does_nothing_to_a_terminal() -> None:
    terminal = Terminal()
    line = ProgressLine(VisibleStream.of(terminal))
    line.show("waiting for b\x1b[8m\n1")
    assert screen(terminal.getvalue()) == [r"waiting for b\u001b[8m\u000a1"]


def test_a_name_in_a_log_line_begins_no_other_line_and_does_nothing_to_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_to_stderr("evenkeel.a_test")
    logging.getLogger("evenkeel.a_test").info("%s has answered", "b\x1b[2J\x9b\u202e\n2026-11-21T08:00:00Z INFO forged")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert r"INFO b\u001b[2J\u009b\u202e\u000a2026" in line


def test_a_file_gets_a_line_now_and_then_and_the_last_one_always() -> None:
    file = io.StringIO()
    line = ProgressLine(file, every=3600)
    for number in range(5):
        line.show(f"step {number}")
    with line.aside():
        file.write("a result\n")
    line.end()
    line.end()
    assert file.getvalue() == "step 0\na result\nstep 4\n"


def test_nothing_shown_leaves_nothing() -> None:
    for stream in (Terminal(), io.StringIO()):
        line = ProgressLine(stream)
        with line.aside():
            pass
        line.end()
        assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("course", "text"),
    [
        ((0, 8640, 0.0, 0.0), "0 of 8,640 cycles, 0 %"),
        ((0, 8640, 0.01, 10.0), "0 of 8,640 cycles, 1 %, 16 min 30 s to go"),
        ((4320, 8640, 0.5, 216.0), "4,320 of 8,640 cycles, 50 %, 20.0 cycles/s, 3 min 36 s to go"),
        ((8640, 8640, 1.0, 432.0), "8,640 of 8,640 cycles, 100 %, 20.0 cycles/s"),
        ((0, 0, 1.0, 0.1), "0 of 0 cycles, 100 %"),
    ],
)
def test_how_far_a_window_is(course: tuple[int, int, float, float], text: str) -> None:
    assert course_text(*course) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.9, "1 h 0 min"), (7500, "2 h 5 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_quiet_work_shows_nothing(stream: type[io.StringIO]) -> None:
    written = stream()
    line = ProgressLine(written, quiet=3600)
    line.show("halfway")
    with line.aside():
        written.write("a result\n")
    line.end()
    assert written.getvalue() == "a result\n"


def test_a_terminal_that_is_dumb_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_screen(Terminal(), {"TERM": "xterm"})
    assert not is_screen(Terminal(), {"TERM": "dumb"})
    assert not is_screen(io.StringIO(), {"TERM": "xterm"})
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    line = ProgressLine(terminal)
    line.show("halfway")
    line.end()
    assert terminal.getvalue() == "halfway\n"


def test_a_course_goes_to_standard_error_alone_and_names_what_it_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "QUIET_S", 0.0)
    with course_of("tables") as course:
        course(1, 4)
        course.say("aside")
        course(4, 4)
    found = capsys.readouterr()
    assert found.out == ""
    first, aside, last = found.err.splitlines()
    assert first.startswith("1 of 4 tables, 25 %, ")
    assert first.endswith(" to go")
    assert aside == "aside"
    assert last.startswith("4 of 4 tables, 100 %")


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_work_of_unknown_length_says_on_a_terminal_how_long_it_has_taken(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
) -> None:
    monkeypatch.setattr(output, "QUIET_S", 0.0)
    monkeypatch.setattr(output, "_TELLS_EVERY_S", 0.01)
    told = threading.Event()
    monkeypatch.setattr(output, "duration", lambda seconds: told.set() or duration(seconds))
    written = stream()
    monkeypatch.setattr("sys.stderr", written)

    def fail() -> None:
        with busy_with("reading"):
            if stream is Terminal:
                assert told.wait(60)
            raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        fail()
    assert ("reading, 0 s so far" in written.getvalue()) == (stream is Terminal)
    assert screen(written.getvalue()) == [""], "nothing of it stays"
    assert not [one for one in threading.enumerate() if one.name == "busy"]


def test_a_course_ends_its_line_also_where_the_work_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "QUIET_S", 0.0)

    def fail() -> None:
        with course_of("tables") as course:
            course(1, 4)
            course(2, 4)
            raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        fail()
    assert capsys.readouterr().err.count("\n") == 2
