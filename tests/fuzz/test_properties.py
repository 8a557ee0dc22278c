"""Any text is properties or a clear refusal; any value of any key is typed or a clear refusal."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import ConfigError
from moldau.base.properties import format_properties, parse_properties
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import ConfigType, format_value
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.topic_configs import TOPIC_CONFIGS

TEXTS = st.text(st.sampled_from("ab=: \t\f\\#!\n\ru0041tné😀") | st.characters(), max_size=60)
PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(
    st.text(max_size=12),
    st.text(string.digits + "+-.eE_,", max_size=22),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "FALSE", " 7 ", "delete,compact", "PLAINTEXT://:9092", "", "-1", "0"]),
)
PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}


def outcome(work, *arguments, refusal=ConfigError):
    """What some work returns, or else the text of its refusal; anything else it raises fails."""
    try:
        return work(*arguments), None
    except refusal as error:
        return None, str(error)


@given(TEXTS)
@settings(max_examples=400)
def test_any_text_is_properties_or_a_value_error(text):
    found, error = outcome(parse_properties, text, refusal=ValueError)
    if error:
        assert error.startswith("line ")
    else:
        assert all(isinstance(part, str) for pair in found.items() for part in pair)


@given(st.dictionaries(PLAIN, PLAIN, max_size=5))
@settings(max_examples=200)
def test_any_properties_are_read_back_as_written(properties):
    assert parse_properties(format_properties(properties)) == properties


@pytest.mark.parametrize("table", [BROKER_CONFIGS, TOPIC_CONFIGS], ids=["broker", "topic"])
@given(data=st.data())
@settings(max_examples=400)
def test_any_value_of_any_config_is_typed_or_a_config_error(table, data):
    definition = data.draw(st.sampled_from(sorted(table.values(), key=lambda one: one.name)))
    text = data.draw(VALUES)
    value, error = outcome(definition.parse, text)
    if error:
        assert definition.name in error
    elif value is not None:
        assert type(value) is PYTHON_TYPES[definition.type]
        assert definition.parse(format_value(value)) == value


@given(
    st.dictionaries(
        st.sampled_from(sorted(BROKER_CONFIGS)) | st.text(max_size=8), VALUES, max_size=3
    )
)
@settings(max_examples=300)
def test_any_settings_load_or_are_refused_in_one_line(overrides):
    found, error = outcome(BrokerSettings.load, None, overrides)
    lines = [error] if error else found.warnings
    assert all(line.isprintable() for line in lines)
