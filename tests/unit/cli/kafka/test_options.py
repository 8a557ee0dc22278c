"""Options the way Kafka's commands read them."""

from __future__ import annotations

import pytest

from moldau.cli.kafka.options import Option, OptionError, OptionParser, flag, number, text

PARSER = OptionParser(
    [
        flag("list", "List."),
        flag("describe", "Describe."),
        text("topic", "topic", "The topic."),
        text("topic-id", "id", "Its id."),
        text("config", "k=v", "A config."),
        number("time", "ms", "A time.", default=-1),
        text("servers", "h:p", "Servers.", former=("broker-list",)),
        Option("state", "States.", "", argument_optional=True),
    ]
)


def test_a_value_follows_after_a_blank_or_an_equals_sign():
    assert PARSER.parse(["--topic", "a"]).value("topic") == "a"
    assert PARSER.parse(["--topic=a=b"]).value("topic") == "a=b"
    assert PARSER.parse(["-topic", "a"]).value("topic") == "a"


def test_a_required_value_may_look_like_an_option():
    assert PARSER.parse(["--time", "-2"]).number("time") == -2


def test_an_optional_value_may_be_left_out():
    options = PARSER.parse(["--state", "--list"])
    assert options.has("state")
    assert options.value("state") is None
    assert PARSER.parse(["--state", "Empty"]).value("state") == "Empty"


def test_a_name_may_be_cut_short_while_it_is_the_only_one():
    assert PARSER.parse(["--desc"]).has("describe")
    assert PARSER.parse(["--topic", "a"]).has("topic")
    with pytest.raises(OptionError, match=r"^top is not a recognized option$"):
        PARSER.parse(["--top", "a"])


def test_former_names_are_understood_and_not_shown():
    assert PARSER.parse(["--broker-list", "h:1"]).value("servers") == "h:1"
    assert "broker-list" not in PARSER.usage()


def test_an_option_may_be_repeated_where_that_makes_sense():
    options = PARSER.parse(["--config", "a=1", "--config", "b=2"])
    assert options.values("config") == ["a=1", "b=2"]
    with pytest.raises(OptionError, match="Found multiple arguments for option config"):
        options.value("config")


def test_words_without_an_option_are_kept_apart():
    assert PARSER.parse(["go", "--list", "there", "--", "--topic"]).words == [
        "go",
        "there",
        "--topic",
    ]


def test_a_default_is_no_option_that_was_given():
    options = PARSER.parse([])
    assert options.number("time") == -1
    assert not options.has("time")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--frob"], "frob is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_usage(arguments, said):
    with pytest.raises(OptionError) as caught:
        PARSER.parse(arguments)
    assert str(caught.value) == said
    assert "--topic <String: topic>" in caught.value.usage


def test_a_number_that_is_none_is_refused_when_it_is_asked_for():
    options = PARSER.parse(["--time", "soon"])
    with pytest.raises(OptionError, match="Cannot parse argument 'soon' of option time"):
        options.number("time")


def test_combinations_are_checked_in_kafkas_words():
    options = PARSER.parse(["--list", "--describe"])
    with pytest.raises(OptionError, match='Option "\\[list\\]" can\'t be used with option'):
        options.exclude("list", "describe")
    with pytest.raises(OptionError, match='Missing required argument "\\[topic\\]"'):
        options.require("topic")
    with pytest.raises(OptionError, match="Exactly one of the following arguments is required"):
        options.require_one_of("list", "describe")
    assert PARSER.parse(["--list"]).require_one_of("list", "describe") == "list"


def test_usage_fits_a_terminal():
    assert all(len(line) <= 82 for line in PARSER.usage().splitlines())
