"""Reconnects, as the client's own log tells of them."""

from pathlib import Path

from devtools.lab.connections import Connections

AT = "2026-11-27 13:00:00.001 INFO  [140213:1]"
TOPIC, OTHER = "persistent://acme/load-0/t-0001", "persistent://acme/pool/shared-partition-2"


def line(kind: str, topic: str, more: str) -> str:
    where = f"{kind.capitalize()}Impl:216"
    return f"{AT} {where} | [{topic}, {more}] Created {kind} on broker [127.0.0.1:4000 -> 127.0.0.2:6650] \n"


def test_the_first_connection_of_a_client_is_none_again(tmp_path: Path) -> None:
    log = tmp_path / "client.log"
    counted = Connections(log)
    counted.read_on()
    log.write_text(line("consumer", TOPIC, "tally, 0") + line("producer", TOPIC, "") + line("producer", OTHER, ""))
    counted.read_on()
    assert (counted.reconnects("producer"), counted.reconnects("consumer")) == (0, 0)
    with log.open("a") as more:  # by then the broker has named the producer
        more.write(line("producer", TOPIC, "lab-0-7") * 2 + line("consumer", TOPIC, "tally, 0"))
        more.write(f"{AT} HandlerBase:130 | [{TOPIC}, lab-0-7] Schedule reconnection in 0.1 s\n")
    counted.read_on()
    counted.read_on()
    assert (counted.reconnects("producer"), counted.reconnects("consumer")) == (2, 1)


def test_a_line_that_is_still_being_written_counts_once_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "client.log"
    counted, again = Connections(log), line("consumer", OTHER, "tally, 3")
    log.write_text(again + again[:-20])
    counted.read_on()
    assert counted.reconnects("consumer") == 0
    log.write_text(again + again)
    counted.read_on()
    assert counted.reconnects("consumer") == 1
