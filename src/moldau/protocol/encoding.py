"""Writes the encoder of one message in one version: object to buffers, as one function.

The shape of the text, for a message with an array of structs:

    def encode(message):
        out = []
        try:
            items_1 = message.topics
            count_2 = len(items_1)
            out.append(pack_hiB(message.acks, ..., count_2 + 1) if count_2 < 127 else ...)
            for item_3 in items_1:
                ...
        except (...) as error:
            raise unencodable(...)
        return [b"".join(out)]

A run of fixed-size fields ends in the length of the value that follows, so both are packed in one
call; an empty tagged section is a padding byte of the next run. Records are never copied: at each
records field what was written so far becomes a part and the records follow it as they were given.

The same writer writes three forms of it. `FLAT` encodes whatever it is given. `SHORT` returns None
when it meets more elements than one turn of an event loop has time for. `SLICED` is the generator
that takes over then: it yields after so many elements, and turns what was written up to there into
a part, so that a large response is never joined in one piece.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Any

from moldau.base.checks import invariant
from moldau.base.limits import ELEMENTS_PER_STEP, FLAT_RESPONSE_ELEMENTS
from moldau.protocol import wire
from moldau.protocol.explain import unencodable
from moldau.protocol.fields import Field, Kind
from moldau.protocol.layout import CODES, Layout
from moldau.protocol.source import Source

_PADDING = "x"

_NULL_STRUCT = b"\xff"
"""Stands for a null struct; a present one is preceded by a one."""


class EncoderForm(enum.Enum):
    """How an encoder deals with a message of many elements."""

    FLAT = "flat"
    SHORT = "short"
    SLICED = "sliced"


def compile_encoder(
    declared: type[Any], layout: Layout, form: EncoderForm = EncoderForm.FLAT
) -> Callable[..., Any]:
    """Write and compile the encoder of a message."""
    return _EncoderWriter(declared, layout, form).write()


class _EncoderWriter:
    """Writes one encoder.

    `_run` holds fixed-size fields that are due but not yet packed, as (code, expression); `_flush`
    packs them all with one call. `_out` names the list that takes the bytes: the message's own or
    that of a tagged field, whose size must be known before it is written.
    """

    def __init__(self, declared: type[Any], layout: Layout, form: EncoderForm) -> None:
        self._declared = declared
        self._layout = layout
        self._form = form
        self._source = Source()
        self._run: list[tuple[str, str]] = []
        self._out = "out"
        self._has_parts = form is EncoderForm.SLICED or layout.carries_records(declared)

    def write(self) -> Callable[..., Any]:
        """Write the whole function."""
        version = self._layout.version
        name = f"encode_{self._declared.__name__}_v{version}"
        source = self._source
        source.bind(
            struct_error=struct.error,
            layout=self._layout,
            join=b"".join,
            one_byte=wire.ONE_BYTE,
            **{helper.__name__: helper for helper in _HELPERS},
        )
        with source.block(f"def {name}(message):"):
            source.line("out = []")
            if self._has_parts:
                source.line("parts = []")
            if self._form is EncoderForm.SHORT:
                source.line(f"left = {FLAT_RESPONSE_ELEMENTS}")
            elif self._form is EncoderForm.SLICED:
                source.line(f"step = {ELEMENTS_PER_STEP}")
                source.line("if False: yield")  # a generator also where there is no array
            with source.block("try:"):
                self._struct(self._declared, "message")
                self._flush()
                if not self._has_parts:
                    source.line("return [join(out)]")
                else:
                    with source.block("if out:"):
                        source.line("parts.append(join(out))")
                    source.line("return parts")
            with source.block(f"except {_ERRORS} as error:"):
                source.line("raise unencodable(message, layout, error) from error")
        form = "" if self._form is EncoderForm.FLAT else f" {self._form.value}"
        return source.function(name, f"<moldau encoder {self._declared.__name__} v{version}{form}>")

    def _flush(self, payload: str | None = None) -> None:
        """Write the pending run, and a payload after it."""
        codes, arguments = self._take_run()
        if not codes:
            if payload:
                self._source.line(f"{self._out}.append({payload})")
            return
        if arguments:
            head = f"{self._source.packer(codes)}({arguments})"
        else:
            head = repr(bytes(len(codes)))
        self._append(head, payload)

    def _flush_sized(self, size: str, code: str, payload: str | None) -> None:
        """Write the pending run, a length or count (-1 for null), and a payload after it."""
        if not self._layout.flexible:
            self._run.append((code, size))
            self._flush(payload)
            return
        codes, arguments = self._take_run()
        if not codes:
            short, long = f"one_byte[{size} + 1]", f"uvarint({size} + 1)"
        elif arguments:
            short = f"{self._source.packer(codes + 'B')}({arguments}, {size} + 1)"
            long = f"{self._source.packer(codes)}({arguments}) + uvarint({size} + 1)"
        else:
            short = f"{self._source.packer(codes + 'B')}({size} + 1)"
            long = f"{bytes(len(codes))!r} + uvarint({size} + 1)"
        self._append(f"{short} if {size} < 127 else {long}", payload)

    def _append(self, head: str, payload: str | None) -> None:
        if payload:
            self._source.line(f"{self._out} += ({head}, {payload})")
        else:
            self._source.line(f"{self._out}.append({head})")

    def _take_run(self) -> tuple[str, str]:
        codes = "".join(code for code, _ in self._run)
        arguments = ", ".join(argument for code, argument in self._run if code != _PADDING)
        self._run.clear()
        return codes, arguments

    def _struct(self, declared: Any, name: str) -> None:
        for field in self._layout.ordinary(declared):
            self._value(field, f"{name}.{field.name}")
        if not self._layout.flexible:
            return
        fields = self._layout.tagged(declared)
        if fields:
            self._tagged_section(fields, name)
        else:
            self._run.append((_PADDING, ""))

    def _value(self, field: Field, expression: str) -> None:
        match field.kind:
            case Kind.STRUCT:
                self._nested(field, expression)
            case Kind.ARRAY:
                self._array(field, expression)
            case Kind.STRING:
                self._text(field, expression)
            case Kind.BYTES:
                self._bytes(field, expression)
            case Kind.RECORDS:
                self._records(expression)
            case Kind.UUID:
                self._uuid(expression)
            case _:
                self._run.append((CODES[field.kind], expression))

    def _uuid(self, expression: str) -> None:
        """Check what the struct code would not: it pads and cuts in silence."""
        with self._source.block(f"if len({expression}) != 16:"):
            self._source.line("raise ValueError('an id has 16 bytes')")
        self._run.append((CODES[Kind.UUID], expression))

    def _nested(self, field: Field, expression: str) -> None:
        name = self._source.fresh(field.name or "item")
        self._source.line(f"{name} = {expression}")
        if not self._layout.nullable(field):
            self._struct(field.struct, name)
            return
        self._flush()
        with self._source.block(f"if {name} is None:"):
            self._source.line(f"{self._out}.append({_NULL_STRUCT!r})")
        with self._source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(field.struct, name)
            self._flush()

    def _text(self, field: Field, expression: str) -> None:
        source = self._source
        text, length = source.fresh("text"), source.fresh("length")
        if self._layout.nullable(field):
            source.line(f"{text} = {expression}")
            with source.block(f"if {text} is None:"):
                source.line(f"{text} = b''")
                source.line(f"{length} = -1")
            with source.block("else:"):
                source.line(f"{text} = {text}.encode()")
                source.line(f"{length} = len({text})")
        else:
            source.line(f"{text} = {expression}.encode()")
            source.line(f"{length} = len({text})")
        self._flush_sized(length, "h", text)

    def _bytes(self, field: Field, expression: str) -> None:
        blob, length = self._measured(field, expression, "blob", "length", "b''")
        self._flush_sized(length, "i", blob)

    def _measured(
        self, field: Field, expression: str, stem: str, unit: str, empty: str
    ) -> tuple[str, str]:
        """Write what takes a value and its length, -1 for null; return both names."""
        source = self._source
        name, size = source.fresh(stem), source.fresh(unit)
        source.line(f"{name} = {expression}")
        if not self._layout.nullable(field):
            source.line(f"{size} = len({name})")
            return name, size
        with source.block(f"if {name} is None:"):
            source.line(f"{name} = {empty}")
            source.line(f"{size} = -1")
        with source.block("else:"):
            source.line(f"{size} = len({name})")
        return name, size

    def _records(self, expression: str) -> None:
        invariant(self._out == "out", "records cannot travel in a tagged field")
        source = self._source
        records, size = source.fresh("records"), source.fresh("size")
        source.line(f"{records} = {expression}")
        with source.block(f"if {records} is None:"):
            source.line(f"{size} = -1")
        with source.block("else:"):
            source.line(f"{records}, {size} = records_parts({records})")
        self._flush_sized(size, "i", None)
        with source.block(f"if {size} > 0:"):
            source.line("parts.append(join(out))")
            source.line("out.clear()")
            source.line(f"parts += {records}")

    def _array(self, field: Field, expression: str) -> None:
        items, count = self._measured(field, expression, "items", "count", "()")
        element = field.element
        assert element is not None  # `fields.array` always gives one
        if self._form is EncoderForm.SHORT:
            self._source.line(f"left -= {count}")
            with self._source.block("if left < 0:"):
                self._source.line("return None")
        if element.kind in CODES and element.kind is not Kind.UUID:
            code = CODES[element.kind]
            packers = self._source.constant("packers", wire.scalar_packers(code))
            length = f"len({items})" if self._layout.nullable(field) else count
            few = f"{packers}[{length}](*{items})"
            many = f"pack_scalars({code!r}, {items})"
            payload = f"{few} if {count} < {wire.SMALL_COUNT} else {many}"
            self._flush_sized(count, "i", payload)
            return
        self._flush_sized(count, "i", None)
        item = self._source.fresh("item")
        with self._source.block(f"for {item} in {items}:"):
            if element.kind is Kind.STRUCT:
                self._struct(element.struct, item)
            else:
                self._value(element, item)
            self._flush()
            self._pause_point()

    def _pause_point(self) -> None:
        """Write what yields after so many elements, in the form that does."""
        if self._form is not EncoderForm.SLICED:
            return
        source = self._source
        source.line("step -= 1")
        with source.block("if step <= 0:"):
            source.line(f"step = {ELEMENTS_PER_STEP}")
            if self._out == "out":  # a tagged field is written whole: its size comes first
                source.line("parts.append(join(out))")
                source.line("out.clear()")
            source.line("yield")

    def _tagged_section(self, fields: list[Field], name: str) -> None:
        """Write the fields that differ from their defaults: a reader assumes the others."""
        source = self._source
        pending, self._run = self._run, []
        tags, outer = source.fresh("tags"), self._out
        source.line(f"{tags} = []")
        for field in fields:
            value = source.fresh(field.name)
            source.line(f"{value} = {name}.{field.name}")
            with source.block(f"if {self._differs(field, value)}:"):
                self._out = source.fresh("body")
                source.line(f"{self._out} = []")
                self._value(field, value)
                self._flush()
                tag = wire.uvarint(field.tag or 0)
                source.line(f"{tags}.append(tagged({tag!r}, join({self._out})))")
        self._out = outer
        self._run = [*pending, ("B", f"len({tags})")]
        self._flush()
        with source.block(f"if {tags}:"):
            source.line(f"{self._out} += {tags}")

    def _differs(self, field: Field, name: str) -> str:
        """Write the condition that a value is not the default, without building a default."""
        default = field.default
        if default is None:
            return f"{name} is not None"
        if default is list:
            return f"({name} is None or {name})"
        if field.struct is not None and default is field.struct:
            return self._struct_differs(field, name)
        if isinstance(default, (bool, int, str)):
            return f"{name} != {default!r}"
        constant = self._source.constant("default", default)
        return f"{name} != {constant}()" if callable(default) else f"{name} != {constant}"

    def _struct_differs(self, field: Field, name: str) -> str:
        declared: Any = field.struct
        inner = [self._differs(part, f"{name}.{part.name}") for part in declared.FIELDS]
        different = " or ".join(inner) or "False"
        return f"({name} is None or {different})" if self._layout.nullable(field) else different


_ERRORS = "(AttributeError, TypeError, ValueError, struct_error)"

_HELPERS = (wire.pack_scalars, wire.records_parts, wire.tagged, wire.uvarint, unencodable)
