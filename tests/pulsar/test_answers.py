"""Which of several answers counts, and what a path asks for."""

import pytest

from evenkeel.pulsar.answers import (
    Answer,
    Answers,
    AnswerSubject,
    Kind,
    owned_by,
    read_json,
    read_text,
    server_reason,
    subject_of,
)

OWNED = "/admin/v2/brokers/lab/b2:8080/ownedNamespaces"


def test_a_redirect_that_was_followed_counts_by_its_final_answer() -> None:
    answers = Answers(
        [
            Answer(0, "b1:8080", OWNED, 307, "", location=f"http://b2:8080{OWNED}"),
            Answer(1, "b2:8080", OWNED, 200, "{}"),
        ]
    )
    final = answers.about(Kind.OWNED, owned_by("lab", "b2:8080"))
    assert final is not None
    assert final.n == 1


def test_a_redirect_to_a_dead_broker_leaves_its_silence() -> None:
    answers = Answers([Answer(0, "b1:8080", OWNED, 307, ""), Answer(1, "b2:8080", OWNED, 0, "refused")])
    reading = read_json(answers.about(Kind.OWNED, owned_by("lab", "b2:8080")), dict)
    assert (reading.outcome, reading.reason) == ("no_answer", "no HTTP answer (refused)")


def test_a_question_asked_again_is_answered_by_the_last_one_that_says_something() -> None:
    answers = Answers(
        [
            Answer(0, "b1:8080", "/admin/v2/brokers", 200, '["old"]'),
            Answer(1, "b2:8080", "/admin/v2/brokers", 200, '["new"]'),
            Answer(2, "b3:8080", "/admin/v2/brokers", 0, "refused"),
        ]
    )
    assert read_json(answers.about(Kind.BROKERS), list).value == ["new"]


def test_answers_to_commands_are_no_observation() -> None:
    answers = Answers([Answer(0, "b1:8080", "/admin/v2/brokers", 200, "[]", method="POST")])
    assert answers.about(Kind.BROKERS) is None


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/admin/v2/brokers", AnswerSubject(Kind.BROKERS)),
        ("/admin/v2/brokers/lab", AnswerSubject(Kind.BROKERS, "lab")),
        ("/admin/v2/brokers/ready", AnswerSubject(Kind.OTHER, "/admin/v2/brokers/ready")),
        ("/admin/v2/brokers/configuration", AnswerSubject(Kind.OTHER, "/admin/v2/brokers/configuration")),
        ("/admin/v2/brokers/configuration/runtime", AnswerSubject(Kind.CONFIGURATION)),
        ("/admin/v2/brokers/lab/h%3A8080/ownedNamespaces", AnswerSubject(Kind.OWNED, "lab h:8080")),
        ("/admin/v2/clusters/lab/failureDomains", AnswerSubject(Kind.DOMAINS, "lab")),
        ("/admin/v2/namespaces/acme", AnswerSubject(Kind.NAMESPACES, "acme")),
        ("/admin/v2/namespaces/acme/b%C3%BCro%20%22x%22", AnswerSubject(Kind.POLICIES, 'acme/büro "x"')),
        ("/admin/v2/namespaces/acme/a/bundles", AnswerSubject(Kind.BUNDLES, "acme/a")),
        ("/admin/v2/namespaces/acme/bundles/bundles", AnswerSubject(Kind.BUNDLES, "acme/bundles")),
        ("/admin/v2/namespaces/acme/a/antiAffinity", AnswerSubject(Kind.GROUP, "acme/a")),
        (
            "/admin/v2/namespaces/lab/antiAffinity/bundles?tenant=acme",
            AnswerSubject(Kind.OTHER, "/admin/v2/namespaces/lab/antiAffinity/bundles?tenant=acme"),
        ),
        ("/admin/v2/persistent/acme/a", AnswerSubject(Kind.TOPIC_LIST, "persistent://acme/a")),
        ("/admin/v2/persistent/acme/a/t/stats", AnswerSubject(Kind.OTHER, "/admin/v2/persistent/acme/a/t/stats")),
        (
            "/admin/v2/persistent/acme/a/partitioned",
            AnswerSubject(Kind.OTHER, "/admin/v2/persistent/acme/a/partitioned"),
        ),
    ],
)
def test_a_path_is_known_by_what_it_asks_for(path: str, subject: AnswerSubject) -> None:
    assert subject_of(path) == subject


def test_an_empty_group_and_204_both_say_that_there_is_none() -> None:
    path = "/admin/v2/namespaces/acme/a/antiAffinity"
    assert read_text(Answer(0, "b", path, 200, "")).outcome == "nothing"
    assert read_text(Answer(0, "b", path, 204, "")).outcome == "nothing"
    assert read_text(Answer(0, "b", path, 200, '"g"')).value == '"g"'


def test_the_reason_of_an_error_comes_without_its_stack_trace() -> None:
    body = '{"reason":"\\n --- An error ---\\n\\nMessage: bundle is gone\\n\\nStacktrace:\\n\\njava.x\\n\\tat y"}'
    assert server_reason(body) == "bundle is gone"
    assert server_reason("") == "no text"
    assert len(server_reason('{"reason":"' + "x" * 5000 + '"}')) == 300


def test_json_nested_too_deeply_is_unreadable_and_no_crash() -> None:
    deep = Answer(0, "b", "/admin/v2/brokers", 200, "[" * 200_000)
    assert read_json(deep, list).outcome == "unreadable"
