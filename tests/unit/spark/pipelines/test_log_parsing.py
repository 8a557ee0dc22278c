"""Lines of every format that is promised, as programs write them, and what becomes of others."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from moldau.base.errors import UserError
from moldau.spark.pipelines.logs.forms.own import OwnForm, pattern_of
from moldau.spark.pipelines.logs.moments import common_us, iso_us
from moldau.spark.pipelines.logs.parsing import (
    CLAIMED,
    Origin,
    Rules,
    parse,
    service_of,
    text_of,
)

RULES = Rules(UTC, 600_000_000, 1 << 20)
USUAL = Origin("web-1", "/var/log/shop.log")


def us(text):
    moment = datetime.fromisoformat(text)
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1_000_000)


SENT = us("2026-11-15T12:00:30")
NOON = "2026-11-15T12:00:00"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "shop.py", line 3, in <module>\nNoPlums: none left'
)
JAVA_TRACE = (
    "java.lang.IllegalStateException: no plums\n"
    "\tat com.example.Shop.sell(Shop.java:17)\n"
    "Caused by: java.io.IOException: closed\n"
    "\t... 3 more"
)


def parsed(text, origin=USUAL, rules=RULES):
    return parse(text, origin, SENT, SENT, rules)


@pytest.mark.parametrize(
    ("text", "form", "time", "level", "message", "fields"),
    [
        ('{"time":"2026-11-15T12:00:00Z","level":"error","msg":"no plums","user":{"id":7}}',
         "json", NOON, "ERROR", "no plums", {"user.id": "7"}),
        ('{"@timestamp":"2026-11-15T13:00:00.000+01:00","log.level":"WARN","message":"m","n":1.50}',
         "json", NOON, "WARN", "m", {"n": "1.50"}),
        ('{"ts":1794744000.25,"level":"info","msg":"m","list":[1,"a"],"ok":true,"none":null}',
         "json", "2026-11-15T12:00:00.250", "INFO", "m",
         {"list": '[1, "a"]', "ok": "true", "none": "null"}),
        ('{"msg":"m","v":[1,2.50,-0,1E400,NaN,[],{}],"w":[{"a":"é\\n","b":[true,null]}],"x":{}}',
         "json", None, "NONE", "m",
         {"v": "[1, 2.50, -0, 1E400, NaN, [], {}]", "x": "{}",
          "w": '[{"a": "é\\n", "b": [true, null]}]'}),
        ('{"a":{"b":{"c":{"d":{"e":1.0,"f":"g"}}}},"msg":"m"}',
         "json", None, "NONE", "m", {"a.b.c.d": '{"e": 1.0, "f": "g"}'}),
        ('{"a":1,"a":"b","msg":"m","c":[{"d":1,"d":2}]}',
         "json", None, "NONE", "m", {"a": "1", "a.2": "b", "c": '[{"d": 1, "d": 2}]'}),
        ('{"time":1794744000000,"level":50,"msg":"pino"}',
         "json", NOON, "ERROR", "pino", {"level": "50"}),
        ('{"log":"hello\\n","stream":"stdout","time":"2026-11-15T12:00:00.000000000Z"}',
         "docker", NOON, "NONE", "hello", {"stream": "stdout"}),
        (('{"log":"2026-11-15 12:00:00,000 ERROR shop: no\\n","stream":"stderr","time":"x",'
         '"attrs":{"tag":"a"}}'),
         "python", NOON, "ERROR", "no",
         {"logger": "shop", "stream": "stderr", "time": "x", "attrs.tag": "a"}),
        (('{"log":"{\\"level\\":\\"warn\\",\\"msg\\":\\"m\\"}\\n","stream":"stdout",'
         '"time":"2026-11-15T12:00:00Z"}'),
         "json", NOON, "WARN", "m", {"stream": "stdout"}),
        ("2026-11-15T12:00:00.000000000Z stderr F E1115 12:00:01.5 7 a.go:1] no plums",
         "klog", "2026-11-15T12:00:01.5", "ERROR", "no plums",
         {"thread": "7", "file": "a.go", "line": "1", "stream": "stderr"}),
        ("2026-11-15T13:00:00+01:00 stdout P half a li",
         "cri", NOON, "NONE", "half a li", {"stream": "stdout", "partial": "true"}),
        ("2026-11-15T12:00:00Z stdout F", "cri", NOON, "NONE", "", {"stream": "stdout"}),
        ("2026-11-15T12:00:00.000000Z 0 [System] [MY-010116] [Server] starting",
         "mysql", NOON, "INFO", "starting",
         {"thread": "0", "code": "MY-010116", "logger": "Server"}),
        ("2026-11-15T12:00:00.000000Z 8 [ERROR] [MY-013183] [InnoDB] Assertion failure",
         "mysql", NOON, "ERROR", "Assertion failure",
         {"thread": "8", "code": "MY-013183", "logger": "InnoDB"}),
        ("2026-11-15 12:00:00 0 [Warning] InnoDB: slow",
         "mysql", NOON, "WARN", "InnoDB: slow", {"thread": "0"}),
        ("2026-11-15 12:00:00.000 UTC [4711] app@shop FATAL:  no plums",
         "postgresql", NOON, "FATAL", "no plums", {"pid": "4711", "user": "app@shop"}),
        ("2026-11-15 12:00:00 UTC [4711-3] LOG:  checkpoint complete",
         "postgresql", NOON, "INFO", "checkpoint complete", {"pid": "4711"}),
        ("2026-11-15 12:00:00.000 UTC [4711] [unknown]@[unknown] DEBUG2:  attempting",
         "postgresql", NOON, "DEBUG", "attempting",
         {"pid": "4711", "user": "[unknown]@[unknown]"}),
        (("2026-11-15 12:00:00,000 [myid:1] - WARN  "
          "[QuorumPeer[myid=1](secure=disabled):Learner@391] - slow"),
         "java", NOON, "WARN", "slow",
         {"node": "1", "thread": "QuorumPeer[myid=1](secure=disabled):Learner@391"}),
        ("[2026-11-15T12:00:00,000][WARN ][o.e.n.Node               ] [node-1] low disk",
         "java", NOON, "WARN", "low disk", {"logger": "o.e.n.Node", "node": "node-1"}),
        (('{"t":{"$date":"2026-11-15T13:00:00.000+01:00"},"s":"E","c":"NETWORK","id":1,'
         '"ctx":"conn1","msg":"gone","attr":{"n":1}}'),
         "json", NOON, "ERROR", "gone",
         {"s": "E", "c": "NETWORK", "id": "1", "ctx": "conn1", "attr.n": "1"}),
        ("2026-11-15T12:00:00.000+0000 W  STORAGE  [initandlisten] no plums",
         "mongodb", NOON, "WARN", "no plums", {"logger": "STORAGE", "thread": "initandlisten"}),
        (('{"timeUnixNano":"1794744000000000000","severityNumber":17,"severityText":"Error",'
         '"body":{"stringValue":"no"},"resource":{"attributes":{"service.name":"shop"}}}'),
         "json", NOON, "ERROR", "no", {"severityNumber": "17"}),
        ('{"timeUnixNano":"1794744000000000000","severityNumber":22,"body":"no"}',
         "json", NOON, "FATAL", "no", {"severityNumber": "22"}),
        ("[2026-11-15 12:00:00,000: ERROR/ForkPoolWorker-1] Task shop.sell[7] raised",
         "python", NOON, "ERROR", "Task shop.sell[7] raised", {"process": "ForkPoolWorker-1"}),
        ("E, [2026-11-15T12:00:00.000000 #4711] ERROR -- Shop::Cart: no: plums",
         "ruby", NOON, "ERROR", "no: plums", {"pid": "4711", "logger": "Shop::Cart"}),
        ("I, [2026-11-15T12:00:00.000000 #4711]  INFO -- : open",
         "ruby", NOON, "INFO", "open", {"pid": "4711"}),
        ("2026-11-15 13:00:00.000 +01:00 [WRN] slow", "serilog", NOON, "WARN", "slow", {}),
        ("[12:00:00 FTL] gone", "serilog", NOON, "FATAL", "gone", {}),
        ('{"@t":"2026-11-15T12:00:00.0000000Z","@mt":"{N} plums","@l":"Error","N":7}',
         "json", NOON, "ERROR", "{N} plums", {"N": "7"}),
        ('{"@t":"2026-11-15T12:00:00.0000000Z","@m":"7 plums"}',
         "json", NOON, "INFO", "7 plums", {}),
        ('{"Timestamp":"2026-11-15T12:00:00Z","Level":"Warning","MessageTemplate":"m"}',
         "json", NOON, "WARN", "m", {"Level": "Warning"}),
        ("\x1b[2m2026-11-15T12:00:00Z\x1b[0m \x1b[31mERROR\x1b[0m \x1b[1mno plums\x1b[0m",
         "dated", NOON, "ERROR", "no plums", {}),
        ('{"level":"\\u001b[33mwarn\\u001b[39m","msg":"m"}',
         "json", None, "WARN", "m", {"level": "\x1b[33mwarn\x1b[39m"}),
        ("26/11/15 12:00:00 WARN TaskSetManager: Lost task 0.0",
         "java", NOON, "WARN", "Lost task 0.0", {"logger": "TaskSetManager"}),
        (('shop.example:443 10.0.0.7 - anna [15/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 500 1'
         ' "-" "curl"'),
         "access", NOON, "ERROR", "GET / HTTP/1.1 500",
         {"site": "shop.example:443", "client": "10.0.0.7", "user": "anna", "method": "GET",
          "target": "/", "protocol": "HTTP/1.1", "status": "500", "size": "1", "agent": "curl"}),
        ('{"user":"u-7"}', "json", None, "NONE", '{"user":"u-7"}', {"user": "u-7"}),
        ('time=2026-11-15T12:00:00Z level=warn msg="no \\"plums\\"" user=7 user=8',
         "logfmt", NOON, "WARN", 'no "plums"', {"user": "7", "user.2": "8"}),
        ('127.0.0.1 - frank [15/Nov/2026:13:00:00 +0100] "GET /plums HTTP/1.1" 200 2326',
         "access", NOON, "INFO", "GET /plums HTTP/1.1 200",
         {"client": "127.0.0.1", "user": "frank", "method": "GET", "target": "/plums",
          "protocol": "HTTP/1.1", "status": "200", "size": "2326"}),
        ('::1 - - [15/Nov/2026:12:00:00 +0000] "GET / HTTP/2.0" 503 - "-" "curl \\"8\\"" 0.004',
         "access", NOON, "ERROR", "GET / HTTP/2.0 503",
         {"client": "::1", "method": "GET", "target": "/", "protocol": "HTTP/2.0",
          "status": "503", "agent": 'curl \\"8\\"', "request_time": "0.004"}),
        ('shop.example - - [15/Nov/2026:12:00:00 +0000] "\\x16\\x03" 400 0',
         "access", NOON, "WARN", "\\x16\\x03 400",
         {"client": "shop.example", "status": "400", "size": "0"}),
        ("2026-11-15 12:00:00,123 INFO shop: open",
         "python", "2026-11-15T12:00:00.123", "INFO", "open", {"logger": "shop"}),
        ("2026-11-15 12:00:00,123 - shop.cart - WARNING - empty",
         "python", "2026-11-15T12:00:00.123", "WARN", "empty", {"logger": "shop.cart"}),
        ("[2026-11-15 12:00:00,123] ERROR in app: boom",
         "python", "2026-11-15T12:00:00.123", "ERROR", "boom", {"logger": "app"}),
        ("CRITICAL:root:out of plums",
         "python", None, "FATAL", "out of plums", {"logger": "root"}),
        ("2026-11-15 12:00:00.123 [main] INFO  com.example.Shop - open",
         "java", "2026-11-15T12:00:00.123", "INFO", "open",
         {"logger": "com.example.Shop", "thread": "main"}),
        ("12:00:00.123 [pool-1-thread-2] WARN com.example.Shop - slow",
         "java", "2026-11-15T12:00:00.123", "WARN", "slow",
         {"logger": "com.example.Shop", "thread": "pool-1-thread-2"}),
        ("2026-11-15T13:00:00.000+01:00  INFO 4711 --- [shop] [main] c.e.Shop       : Started",
         "java", NOON, "INFO", "Started",
         {"logger": "c.e.Shop", "thread": "[shop] [main]", "pid": "4711"}),
        ("[2026-11-15 12:00:00,000] INFO [Log partition=a-0] Rolled (kafka.log.LocalLog)",
         "java", NOON, "INFO", "[Log partition=a-0] Rolled", {"logger": "kafka.log.LocalLog"}),
        ("2026-11-15 12:00:00,000 ERROR [org.jboss.as] (MSC service thread 1-2) down",
         "java", NOON, "ERROR", "down",
         {"logger": "org.jboss.as", "thread": "MSC service thread 1-2"}),
        ("2026-11-15 12:00:00 DEBUG com.example.Shop:17 - found",
         "java", NOON, "DEBUG", "found", {"logger": "com.example.Shop", "line": "17"}),
        ("Nov 15, 2026 12:00:00 PM com.example.Shop run\nSEVERE: closed",
         "java", NOON, "ERROR", "closed", {"logger": "com.example.Shop", "method": "run"}),
        ("2026/11/15 12:00:00 [error] 12#34: *5 open() failed",
         "nginx", NOON, "ERROR", "*5 open() failed", {"pid": "12", "thread": "34"}),
        ("[Sun Nov 15 12:00:00.123456 2026] [core:error] [pid 7:tid 8] [client ::1:80] AH1: none",
         "apache", "2026-11-15T12:00:00.123456", "ERROR", "AH1: none",
         {"module": "core", "pid": "7", "thread": "8", "client": "::1:80"}),
        ("[Sun Nov 15 12:00:00 2026] [warn] no plums", "apache", NOON, "WARN", "no plums", {}),
        ("[Sun Nov 15 12:00:00 2026] [:trace8] [pid 7] (13)Denied: x",
         "apache", NOON, "TRACE", "(13)Denied: x", {"pid": "7", "level": "trace8"}),
        ("[Sun Nov 15 12:00:00 2026] [plums] none",
         "plain", None, "NONE", "[Sun Nov 15 12:00:00 2026] [plums] none", {}),
        ("E1115 12:00:00.000250    7 server.go:17] no plums",
         "klog", "2026-11-15T12:00:00.000250", "ERROR", "no plums",
         {"thread": "7", "file": "server.go", "line": "17"}),
        ("I20251231 12:00:00.5 7 a.cc:1] open", "klog", "2025-12-31T12:00:00.500", "INFO", "open",
         {"thread": "7", "file": "a.cc", "line": "1"}),
        ("W1399 12:00:00.5 7 a.cc:1] open",
         "plain", None, "NONE", "W1399 12:00:00.5 7 a.cc:1] open", {}),
        ("2026-11-15 12:00:00.000 | WARNING  | shop.cart:<module>:17 - empty",
         "python", NOON, "WARN", "empty",
         {"logger": "shop.cart", "method": "<module>", "line": "17"}),
        ("2026-11-15 12:00:00 [main] [INFO ] com.example.Shop - open",
         "java", NOON, "INFO", "open", {"logger": "com.example.Shop", "thread": "main"}),
        ("2026-11-15 12:00:00 [main] [ERROR] no plums",
         "dated", NOON, "ERROR", "no plums", {"thread": "main"}),
        ("<34>Nov 15 12:00:00 gate su[7]: failed for root",
         "syslog", NOON, "FATAL", "failed for root", {"pid": "7"}),
        ("Nov  5 12:00:00 gate kernel: eth0 up",
         "syslog", "2026-11-05T12:00:00", "NONE", "eth0 up", {}),
        ('<165>1 2026-11-15T12:00:00.000Z gate app 7 ID47 [x a="]"] it happened',
         "syslog", NOON, "INFO", "it happened",
         {"pid": "7", "msgid": "ID47", "data": '[x a="]"]'}),
        ("2026-11-15T12:00:00Z stdout F hello",
         "cri", NOON, "NONE", "hello", {"stream": "stdout"}),
        ("2026-11-15 12:00:00 WARN hello there",
         "dated", NOON, "WARN", "hello there", {}),
        ("ERROR no plums", "levelled", None, "ERROR", "no plums", {}),
        ("\tat com.example.Shop.sell(Shop.java:17)",
         "plain", None, "NONE", "\tat com.example.Shop.sell(Shop.java:17)", {}),
        ("Error while selling", "plain", None, "NONE", "Error while selling", {}),
        ("2026-99-99 12:00:00 INFO shop: open",
         "plain", None, "NONE", "2026-99-99 12:00:00 INFO shop: open", {}),
        ("{not json}", "plain", None, "NONE", "{not json}", {}),
        ("", "plain", None, "NONE", "", {}),
    ],
)  # fmt: skip
def test_a_line_is_understood(text, form, time, level, message, fields):
    line = parsed(text, Origin())
    assert (line.format, line.level, line.message, line.fields) == (form, level, message, fields)
    assert line.time_us == (SENT if time is None else us(time))
    assert line.stack is None


OWN = OwnForm(
    "shop", pattern_of(r"(?P<level>\w+)/(?P<time>[^|]+)\|(?P<till>\w*)\| (?P<message>.*)")
)


@pytest.mark.parametrize(
    ("text", "time", "level", "message", "fields"),
    [
        ("ERR/15/Nov/2026:12:00:00 +0000|t7| no plums", NOON, "ERROR", "no plums", {"till": "t7"}),
        ("I/12:00:00.250|| open", "2026-11-15T12:00:00.250", "INFO", "open", {}),
        ("odd/never|| x", None, "NONE", "x", {"level": "odd", "time": "never"}),
    ],
)
def test_a_format_of_ones_own_is_read_by_its_groups(text, time, level, message, fields):
    rules = RULES._replace(own=OWN)
    line = parsed(text, Origin(), rules)
    assert line[:4] == ("shop", message, SENT if time is None else us(time), level)
    assert line.fields == fields
    wrapped = parsed(f"2026-11-15T12:00:30Z stdout F {text}", Origin(), rules)
    assert wrapped == line._replace(fields={**fields, "stream": "stdout"})


def test_what_is_too_long_to_be_a_time_of_ones_own_is_not_remembered():
    known = common_us.cache_info()
    line = parsed(f"I/{'2' * 100_000}|| x", rules=RULES._replace(own=OWN))
    assert line.fields["time"] == "2" * 100_000
    assert common_us.cache_info() == known


def test_what_is_not_of_ones_own_format_is_read_as_ever():
    text = "2026-11-15 12:00:00,123 INFO shop: open"
    assert parsed(text, rules=RULES._replace(own=OWN)) == parsed(text)


def test_a_stack_trace_belongs_to_a_line_of_ones_own_format():
    line = parsed(f"E/12:00:00|| no plums\n{TRACEBACK}", rules=RULES._replace(own=OWN))
    assert (line.message, line.stack) == ("no plums", TRACEBACK)


@pytest.mark.parametrize(("text", "why"), [("(", "no regular expression"), (".*", "names nothing")])
def test_a_pattern_that_says_nothing_is_refused(text, why):
    with pytest.raises(UserError, match=why):
        pattern_of(text)


@pytest.mark.parametrize(
    ("first", "trace"),
    [
        ("2026-11-15 12:00:00,123 ERROR shop: no plums", TRACEBACK),
        ("ERROR:shop:no plums", TRACEBACK),
        ("2026-11-15T12:00:00Z stderr F ERROR:shop:no plums", TRACEBACK),
        ("E, [2026-11-15T12:00:00.000000 #4711] ERROR -- : no plums", TRACEBACK),
        ("26/11/15 12:00:00 ERROR Executor: no plums", JAVA_TRACE),
        ("[12:00:00 ERR] no plums", JAVA_TRACE),
        ("2026-11-15 12:00:00.123 [main] ERROR com.example.Shop - no plums", JAVA_TRACE),
        ("[2026-11-15 12:00:00,123] ERROR no plums (kafka.server.Server)", JAVA_TRACE),
        ("Nov 15, 2026 12:00:00 PM com.example.Shop run\nSEVERE: no plums", JAVA_TRACE),
    ],
)
def test_a_stack_trace_belongs_to_its_line(first, trace):
    line = parsed(f"{first}\n{trace}")
    assert (line.message, line.level, line.stack) == ("no plums", "ERROR", trace)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\x1b[31mno\x1b[0m", "\x1b[31mno\x1b[0m"),
        (r"caf\u00e9 \U0001f351", "caf\u00e9 \U0001f351"),
        (r"a\tb\nc\vd", "a\tb\nc\vd"),
        (r"\"quoted\" C:\\x41", '"quoted" C:\\x41'),
        (r"\xff \U00ffffff \x4 \q", r"\xff \U00ffffff \x4 \q"),
        (r"\ud83c", "\ufffd"),
    ],
)
def test_escapes_of_logfmt_are_what_they_stand_for(written, meant):
    assert parsed(f'level=info msg="{written}"').message == meant


@pytest.mark.parametrize("level", ["[INFO]", "[INFO ]", "INFO ", "INFO:"])
def test_a_level_may_be_padded_within_its_brackets(level):
    assert parsed(f"{level} no plums")[:2] == ("levelled", "no plums")
    dated = parsed(f"2026-11-15 12:00:00 {level} no plums")
    assert (dated.format, dated.level, dated.message) == ("dated", "INFO", "no plums")
    named = parsed(f"2026-11-15 12:00:00 {level} a.Shop - no plums")
    assert (named.level, named.message, named.fields["logger"]) == ("INFO", "no plums", "a.Shop")


def test_a_request_on_a_day_that_there_is_not_stays_whole():
    text = '1.1.1.1 - - [31/Feb/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 -'
    assert parsed(text)[:3] == ("plain", text, SENT)


def test_lines_below_that_are_no_trace_stay_in_the_message():
    line = parsed("2026-11-15 12:00:00 INFO shop: stock\nplums 7\npears 9\n")
    assert (line.message, line.stack) == ("stock\nplums 7\npears 9", None)


def test_a_trace_in_json_is_found():
    line = parsed('{"msg":"m","error":{"stack":"E: x\\n    at f (a.js:1)","code":"X"}}')
    assert line.stack == "E: x\n    at f (a.js:1)"
    assert line.fields == {"error.code": "X"}


def test_an_object_is_not_taken_apart_where_names_would_be_many_times_the_line():
    members = ", ".join(f'"{number}": 1' for number in range(1000))
    name = "n" * 100
    line = parsed(f'{{"msg": "m", "{name}": {{"{name}": {{{members}}}}}}}')
    assert (line.format, line.message) == ("json", "m")
    assert line.fields == {name: f'{{"{name}": {{{members}}}}}'}
    few = parsed(f'{{"msg": "m", "{name}": {{"{name}": {{"1": 1, "2": 1}}}}}}')
    assert few.fields == {f"{name}.{name}.1": "1", f"{name}.{name}.2": "1"}


# Where and when


def test_headers_say_more_about_host_and_service_than_the_line():
    text = '{"host":"inner","service":"cart","msg":"m"}'
    assert parsed(text, Origin())[4:6] == ("inner", "cart")
    assert parsed(text, Origin("web-1", "/var/log/x.log"))[4:6] == ("web-1", "cart")
    assert parsed(text, Origin("web-1", None, "shop"))[4:6] == ("web-1", "shop")
    assert parsed("plain", Origin("web-1", "/srv/shop/app.log"))[4:6] == ("web-1", "shop")


def test_what_the_line_says_of_host_and_service_stays_as_fields_beside_headers_that_differ():
    text = '{"host":"inner","service":"cart","msg":"m","pid":7}'
    assert parsed(text, Origin()).fields == {"pid": "7"}
    assert parsed(text, Origin("inner", None, "cart")).fields == {"pid": "7"}
    fields = {"pid": "7", "host": "inner", "service": "cart"}
    assert parsed(text, Origin("web-1", None, "shop")).fields == fields
    forwarded = parsed("Nov 15 12:00:00 gate su: x", Origin("collector", "/var/log/syslog"))
    assert (forwarded.host, forwarded.fields) == ("collector", {"host": "gate"})
    taken = parsed('{"host":"","hostname":"inner","msg":"m"}', Origin("web-1"))
    assert taken.fields == {"host": "", "host.2": "inner"}


@pytest.mark.parametrize(
    ("path", "service"),
    [
        ("/var/log/shop.log", "shop"),
        ("/var/log/shop.log.1", "shop"),
        ("/var/log/nginx/access.log", "nginx"),
        ("/var/log/syslog", "syslog"),
        ("/srv/cart/logs", "cart"),
        ("app.log", "app"),
        (None, None),
        ("", None),
    ],
)
def test_the_path_names_the_service_where_nothing_else_does(path, service):
    assert service_of(path) == service


def test_times_without_a_zone_are_in_that_of_the_user():
    rules = RULES._replace(zone=ZoneInfo("Europe/Prague"))
    assert parsed("2026-11-15 13:00:00 INFO a: b", rules=rules).time_us == us(NOON)
    assert parsed("2026-11-15 12:00:00Z INFO a: b", rules=rules).time_us == us(NOON)


def test_a_time_without_a_year_is_in_the_nearest():
    new_year = us("2027-01-01T00:00:05")
    line = parse("Dec 31 23:59:58 gate su: x", Origin(), new_year, new_year, RULES)
    assert line.time_us == us("2026-12-31T23:59:58")
    line = parse("23:59:58.000 [main] INFO a.B - x", Origin(), new_year, new_year, RULES)
    assert line.time_us == us("2026-12-31T23:59:58")


@pytest.mark.parametrize(
    ("sent", "time"),
    [
        ("2026-10-24T22:00:05", "2026-10-24T21:59:58"),  # the clocks go back in three hours
        ("2026-03-28T23:00:05", "2026-03-28T22:59:58"),  # they go forward in two
        ("2026-07-01T22:00:05", "2026-07-01T21:59:58"),
        ("2026-10-25T22:59:50", "2026-10-25T22:59:58"),
    ],
)
def test_a_time_of_day_before_midnight_is_right_where_clocks_are_changed(sent, time):
    rules = RULES._replace(zone=ZoneInfo("Europe/Prague"))
    line = parse("23:59:58.000 [main] INFO a.B - x", Origin(), us(sent), us(sent), rules)
    assert line.time_us == us(time)


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ("2026-11-15 12:10:31 INFO hi", us("2026-11-15T12:10:31")),
        ('{"time":9999999999999999999,"level":"info","msg":"hi"}', 9_999_999_999_999_999),
        ("1969-12-31 23:59:59.999999 INFO hi", -1),
        ("1970-01-01 00:59:59 +01:00 INFO hi", -1_000_000),
        ("0001-01-01 00:00:00 +01:00 INFO hi", -62_135_600_400_000_000),
        ('1.1.1.1 - - [01/Jan/0001:00:00:00 +0100] "hi" 200 -', -62_135_600_400_000_000),
    ],
)
def test_a_time_that_cannot_be_true_is_not_believed_but_kept(text, claimed):
    line = parsed(text)
    assert (line.time_us, line.level) == (SENT, "INFO")
    assert "hi" in line.message
    assert line.fields[CLAIMED] == str(claimed)
    assert line.fields.keys() <= {CLAIMED, "client", "status"}


@pytest.mark.parametrize("time", ["1970-01-01 00:00:00", "2026-11-15 12:10:30"])
def test_a_time_since_1970_and_within_the_skew_is_believed(time):
    line = parsed(f"{time} INFO hi")
    assert (line.time_us, line.fields) == (us(time), {})


def test_a_time_far_ahead_is_not_believed_but_kept():
    line = parsed("2100-01-01 00:00:00 INFO shop: hi")
    assert line.time_us == SENT
    assert line.fields == {"logger": "shop", CLAIMED: str(us("2100-01-01T00:00:00"))}
    assert parse("plain", Origin(), us("2100-01-01"), SENT, RULES).time_us == SENT
    assert parse("plain", Origin(), -1, SENT, RULES).time_us == SENT


# What cannot be a line


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"caf\xe9", "not UTF-8: unexpected end of data at byte 3"),
        (b"x" * (RULES.line_size_max + 1), "1048577 bytes, more than a line of 1048576"),
        (b"", None),
        (b"x" * RULES.line_size_max, None),
    ],
)
def test_what_is_no_text_or_too_long_is_refused(value, reason):
    text, said = text_of(value, len(value or b""), RULES)
    assert said == reason
    assert (text is None) is (reason is not None)


@pytest.mark.parametrize(
    "unit",
    ["[", "]", " ", "\n", '"', '\\"', "=", "a=", 'a="', "(", " (a.b", "{", '{"a":', "<", "INFO ",
     "a.", "\tat ", "[INFO] ", "1 ", ": ", "- ", "a= ", "a= a.2= ",
     ' [15/Nov/2026:12:00:00 +0000] "" 200 1'],
)  # fmt: skip
@pytest.mark.parametrize(
    "first",
    ["", "2026-11-15 12:00:00 INFO ", "1.1.1.1 - - [15/Nov/2026:12:00:00 +0000] ", "INFO ", "a=b ",
     "<34>1 - - - - - ", "Nov 15 12:00:00 gate ", "2026-11-15 12:00:00 [main] ", "\x1b[",
     "2026-11-15T12:00:00Z stdout F ", "2026-11-15T12:00:00Z 0 [Note] ", "26/11/15 12:00:00 INFO a",
     "[2026-11-15T12:00:00,123][INFO ][", "E, [2026-11-15T12:00:00.000000 #1] ERROR -- ",
     "a.b:80 1.1.1.1 - - [15/Nov/2026:12:00:00 +0000] "],
)  # fmt: skip
@pytest.mark.parametrize("last", ["end", "\nend"])
def test_a_long_line_of_anything_takes_no_long_time(first, unit, last):
    """Every expression is linear: one that is not would take hours for these."""
    line = parsed(f"{first}{unit * (200_000 // len(unit))}{last}")
    assert "end" in (line.stack or line.message) or "end" in "".join(line.fields.values())


def test_a_long_name_is_not_repeated_for_each_member_of_its_object():
    """Names that are joined would be a thousand times the line."""
    members = ",".join(f'"{number}":{number}' for number in range(10_000))
    line = parsed(f'{{"{"a" * 100_000}":{{{members}}},"b":{{{members}}}}}')
    assert len(line.fields) == 10_001
    assert line.fields["b.7"] == "7"
    assert line.fields["a" * 100_000].startswith('{"0": ')


@pytest.mark.parametrize(
    "text", ['{"time":"LONG","msg":"m"}', "time=LONG level=info", "<34>1 LONG a b c d - m"]
)
def test_what_is_too_long_to_be_a_time_is_not_remembered(text):
    """Times that were read are kept for the next lines; megabytes of anything must not be."""
    known = iso_us.cache_info()
    line = parsed(text.replace("LONG", "2" * 100_000))
    assert "2" * 100_000 in [line.message, *line.fields.values()] or line.format == "plain"
    assert iso_us.cache_info() == known
