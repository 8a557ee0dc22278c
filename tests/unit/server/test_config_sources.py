"""Where settings come from, which of them wins, and what their values may refer to."""

import pytest

from moldau.base.errors import ConfigError
from moldau.server.configuration.sources import gather, key_of_variable


def gathered(text=None, overrides=None, environ=None, defaults=None, files=None):
    def read_file(path):
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    found = gather(text, overrides or {}, environ or {}, defaults or {}, read_file)
    return {key: setting.value for key, setting in found.items()}


class TestPrecedence:
    def test_an_option_wins_over_the_environment_over_the_file_over_a_default(self):
        found = gathered(
            "a=file\nb=file\nc=file",
            {"a": "option"},
            {"KAFKA_A": "variable", "KAFKA_B": "variable"},
            {"a": "default", "b": "default", "c": "default", "d": "default"},
        )
        assert found == {"a": "option", "b": "variable", "c": "file", "d": "default"}

    def test_another_name_for_the_same_thing_silences_the_sources_below(self):
        found = gathered("log.retention.ms=1\nlog.dirs=/file", {"log.retention.hours": "2"})
        assert found == {"log.retention.hours": "2", "log.dirs": "/file"}

    def test_names_for_the_same_thing_stand_beside_each_other_in_one_source(self):
        found = gathered("log.retention.ms=1\nlog.retention.hours=2")
        assert found == {"log.retention.ms": "1", "log.retention.hours": "2"}

    def test_a_default_gives_way_to_another_name(self):
        environ = {"KAFKA_LOG_DIR": "/here"}
        assert gathered(None, {}, environ, {"log.dirs": "/default"}) == {"log.dir": "/here"}


class TestEnvironment:
    @pytest.mark.parametrize(
        ("variable", "key"),
        [
            ("LOG_DIRS", "log.dirs"),
            ("LISTENER_NAME_MY__NAME_SSL_KEYSTORE", "listener.name.my_name.ssl.keystore"),
            ("A___B", "a-b"),
        ],
    )
    def test_a_variable_is_turned_into_a_key_as_in_apaches_images(self, variable, key):
        assert key_of_variable(variable) == key

    def test_variables_of_scripts_and_of_kubernetes_are_not_configs(self):
        environ = {
            "KAFKA_HEAP_OPTS": "-Xmx1G",
            "KAFKA_OPTS": "",
            "KAFKA_JMX_PORT": "9999",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
            "KAFKA_PORT": "tcp://10.0.0.1:9092",
            "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
            "KAFKA_SERVICE_HOST": "10.0.0.1",
            "KAFKA_SERVICE_PORT_TCP_CLIENT": "9092",
            "KAFKA_": "",
            "PATH": "/bin",
        }
        assert gathered(environ=environ) == {}


class TestPlaces:
    def test_each_value_knows_where_it_was_set(self):
        found = gather("# c\n\na=1", {"b": "2"}, {"KAFKA_C": "3"}, {"d": "4"}, None)
        assert {key: setting.place for key, setting in found.items()} == {
            "a": "line 3 of the file",
            "b": "an option",
            "c": "environment variable KAFKA_C",
            "d": "a default",
        }

    def test_a_malformed_file_is_refused_with_its_line(self):
        with pytest.raises(ConfigError, match="the file is malformed: line 2: "):
            gathered("a=1\nb=\\u1")


class TestReferences:
    def test_a_value_may_refer_to_the_environment(self):
        assert gathered("a=x${env:NAME}y", environ={"NAME": "1"}) == {"a": "x1y"}

    def test_a_value_may_refer_to_a_key_of_another_file(self):
        files = {"/secrets": "password=p=1\n"}
        assert gathered("a=${file:/secrets:password}", files=files) == {"a": "p=1"}

    def test_a_value_may_refer_to_a_whole_file(self):
        assert gathered("a=${dir:/secrets:key}", files={"/secrets/key": "k"}) == {"a": "k"}

    def test_the_names_of_providers_are_the_files_own(self):
        provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        text = f"config.providers=vault\nconfig.providers.vault.class={provider}\na=${{vault:NAME}}"
        assert gathered(text, environ={"NAME": "1"})["a"] == "1"

    def test_what_is_no_reference_stays_as_it_is(self):
        assert gathered("a=${other:x} ${x} $env:x") == {"a": "${other:x} ${x} $env:x"}

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("${env:NAME}", r"a: cannot resolve \$\{env:NAME\}: NAME is not there \(set by line 1"),
            ("${file:/none:k}", "No such file"),
            ("${file:/secrets:k}", "k is not there"),
            ("${file:/bad:k}", "line 1: .u must be followed"),
        ],
    )
    def test_what_cannot_be_resolved_is_refused(self, value, problem):
        with pytest.raises(ConfigError, match=problem):
            gathered(f"a={value}", files={"/secrets": "other=1", "/bad": "k=\\u1"})

    def test_a_provider_that_is_not_kafkas_is_refused(self):
        with pytest.raises(ConfigError, match="only Kafka's own providers are known"):
            gathered("config.providers.v.class=com.example.Vault")

    def test_files_are_out_of_reach_where_nobody_reads_them(self):
        with pytest.raises(ConfigError, match="files cannot be read here"):
            gather("a=${file:/secrets:k}", {}, {}, {}, None)
