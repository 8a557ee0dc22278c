"""A config's text becomes a typed value as in Kafka, or an error in Kafka's words."""

import pytest

from moldau.base.errors import ConfigError
from moldau.server.configuration.definition import (
    HIDDEN,
    ConfigType,
    Status,
    at_least,
    between,
    between_or,
    boolean,
    double,
    format_value,
    integer,
    java_class,
    list_of,
    long,
    names,
    not_zero,
    one_of,
    one_of_any_case,
    password,
    refused,
    short,
    string,
    without_effect,
)


@pytest.mark.parametrize(
    ("definition", "text", "value"),
    [
        (boolean("k", False, ""), " TRUE ", True),
        (boolean("k", False, ""), "false", False),
        (integer("k", 0, ""), " -2147483648 ", -(2**31)),
        (integer("k", 0, ""), "+7", 7),
        (short("k", 0, ""), "32767", 32767),
        (long("k", 0, ""), "9223372036854775807", 2**63 - 1),
        (double("k", 0, ""), "1e-1", 0.1),
        (double("k", 0, ""), ".5", 0.5),
        (string("k", "", ""), " text ", "text"),
        (string("k", None, ""), "", None),
        (string("k", "x", ""), "", ""),
        (names("k", (), ""), " a , b,a ", ("a", "b")),
        (names("k", (), ""), "", ()),
        (names("k", None, ""), " ", None),
        (java_class("k", None, ""), "org.Example", "org.Example"),
        (password("k", ""), "secret", "secret"),
    ],
)
def test_text_is_parsed_as_its_type(definition, text, value):
    parsed = definition.parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("definition", "text", "problem"),
    [
        (boolean("k", False, ""), "yes", "Expected value to be either true or false"),
        (integer("k", 0, ""), "2147483648", "Not a number of type INT"),
        (integer("k", 0, ""), "1_000", "Not a number of type INT"),
        (integer("k", 0, ""), "٣", "Not a number of type INT"),
        (integer("k", None, ""), "", "Not a number of type INT"),
        (short("k", 0, ""), "32768", "Not a number of type SHORT"),
        (long("k", 0, ""), "9223372036854775808", "Not a number of type LONG"),
        (long("k", 0, ""), "1.5", "Not a number of type LONG"),
        (double("k", 0, ""), "nan", "Not a number of type DOUBLE"),
        (integer("k", 1, "", at_least(1)), "0", "Value must be at least 1"),
        (double("k", 0.5, "", between(0, 1)), "1.5", "Value must be no more than 1"),
        (double("k", 0.5, "", between(0, 1)), "-1.0", "Value must be at least 0"),
        (
            integer("k", -1, "", between_or(1, 9, -1)),
            "0",
            "Value must be between 1 and 9 or equal to -1",
        ),
        (integer("k", 1, "", not_zero), "0", "Value must be unlimited (-1) or at least 1"),
        (string("k", "a", "", one_of("a", "b")), "c", "String must be one of: a, b"),
        (
            string("k", "a", "", one_of_any_case("A", "B")),
            "c",
            "String must be one of (case insensitive): A, B",
        ),
    ],
)
def test_a_value_out_of_type_or_bounds_is_refused_in_kafkas_words(definition, text, problem):
    with pytest.raises(ConfigError) as caught:
        definition.parse(text)
    assert str(caught.value) == f"Invalid value {text} for configuration k: {problem}"


@pytest.mark.parametrize(
    ("check", "text", "message"),
    [
        (
            list_of("a", "b"),
            "a,c,d",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (list_of("a", "b"), "a,,c", "Configuration 'k' values must not be empty."),
        (lambda _: "No", "a,b ,c", "Invalid value [a, b, c] for configuration k: No"),
    ],
)
def test_a_wrong_list_is_told_by_its_wrong_entry_or_in_javas_form(check, text, message):
    with pytest.raises(ConfigError) as caught:
        names("k", (), "", check).parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (integer("k", -1, "", between_or(1, 9, -1)), "-1"),
        (integer("k", 1, "", not_zero), "-7"),
        (string("k", "a", "", one_of_any_case("A")), "a"),
    ],
)
def test_special_values_are_accepted(definition, text):
    definition.parse(text)


def test_a_refused_config_takes_its_default_only():
    (definition,) = refused("It cannot be", boolean("k", False, ""))
    assert definition.status is Status.REFUSED
    assert definition.parse("false") is False
    with pytest.raises(ConfigError, match="Invalid value true for configuration k: It cannot be"):
        definition.parse("true")


def test_a_config_without_effect_takes_any_legal_value():
    (definition,) = without_effect("It is not needed", integer("k", 1, "", at_least(1)))
    assert definition.parse("7") == 7
    with pytest.raises(ConfigError):
        definition.parse("0")


def test_a_secret_is_never_shown():
    definition = password("k", "")
    assert definition.sensitive
    assert definition.shown("secret") == HIDDEN
    assert definition.shown(None) is None


def test_an_error_stays_one_line_whatever_the_value():
    with pytest.raises(ConfigError) as caught:
        integer("k", 0, "").parse("1\n2\x00")
    assert str(caught.value) == (
        "Invalid value 1\\n2\\x00 for configuration k: Not a number of type INT"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        ("x", "x"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.0, "0.0"),
        (0.5, "0.5"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (-2.5e20, "-2.5E20"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_values_are_written_as_java_writes_them(value, text):
    assert format_value(value) == text


def test_the_type_codes_are_those_of_the_wire():
    assert [one.value for one in ConfigType] == list(range(10))
    assert ConfigType.PASSWORD == 9
