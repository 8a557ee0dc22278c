"""Writes the decoder of one message in one version: bytes to object, as one function.

The shape of the text, for a message with an array of structs:

    def decode(view, position):
        data = bytes(view)
        size = len(data)
        try:
            acks_1, count_2 = unpack_hB(data, position)     # fields of fixed size and the length
            position += 3                                   # byte that ends them, in one call
            if count_2 > 127:
                count_2, position = long_length(data, position, count_2)
            ...
            for _ in range(count_2):
                ...
        except (struct_error, ...) as error:
            raise undecodable(...)

Two rules keep it both quick and safe. A count is compared with the bytes left before anything is
made of it. A string or a blob is not: a slice beyond the end is merely short, every later read then
fails, and the position is compared with the size once, at the end of the function.

The same writer also writes the decoder as a generator, for large requests (`sliced`). That one
yields after so many elements, and refuses more elements than it was told to expect, before it makes
anything of them. The flat form has neither: small frames, which alone it is used for where a client
decides what they hold, have no room for many elements.

Messages that carry records are read through the view, so that records stay where they are; all
others are copied to `bytes` first, because they are small and `bytes` reads a third faster.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from moldau.base.errors import ProtocolError
from moldau.base.limits import ELEMENTS_PER_STEP
from moldau.protocol import wire
from moldau.protocol.fields import Field, Kind
from moldau.protocol.layout import CODES, Layout
from moldau.protocol.source import Source


def compile_decoder(
    declared: type[Any], layout: Layout, *, sliced: bool = False
) -> Callable[..., Any]:
    """Write and compile the decoder of a message, flat or as a generator."""
    return _DecoderWriter(declared, layout, sliced=sliced).write()


class _DecoderWriter:
    """Writes one decoder.

    `_run` holds fields of fixed size that were met but not yet read: `_flush` reads them all with
    one unpack. A value's name may be used in the text only after the flush.
    """

    def __init__(self, declared: type[Any], layout: Layout, *, sliced: bool) -> None:
        self._declared = declared
        self._layout = layout
        self._source = Source()
        self._run: list[tuple[str, str]] = []
        self._path: list[str] = []
        self._zero_copy = layout.carries_records(declared)
        self._sliced = sliced

    def write(self) -> Callable[..., Any]:
        """Write the whole function."""
        label = f"{self._declared.__name__} v{self._layout.version}"
        name = f"decode_{self._declared.__name__}_v{self._layout.version}"
        filename = f"<moldau decoder {label}{' in slices' if self._sliced else ''}>"
        source = self._source
        source.bind(
            new=object.__new__,
            struct_error=struct.error,
            ProtocolError=ProtocolError,
            **{helper.__name__: helper for helper in _HELPERS},
        )
        bound = ", bound" if self._sliced else ""
        with source.block(f"def {name}(view, position{bound}):"):
            source.line(f"data = {'view' if self._zero_copy else 'bytes(view)'}")
            source.line("size = len(data)")
            if self._sliced:
                source.line("del view")  # it may be a piece of a large buffer
                source.line("left = bound")
                source.line(f"step = {ELEMENTS_PER_STEP}")
                source.line("if False: yield")  # a generator also where there is no array
            with source.block("try:"):
                made = self._struct(self._declared)
            errors = "(struct_error, IndexError, UnicodeDecodeError, ProtocolError)"
            with source.block(f"except {errors} as error:"):
                source.line(f"raise undecodable({label!r}, data, position, error) from None")
            with source.block("if position > size:"):
                source.line(f"raise undecodable({label!r}, data, position, IndexError())")
            source.line(f"return {made}, position")
        return source.function(name, filename)

    def _label(self) -> str:
        return ".".join(self._path).replace(".[]", "[]") or "the message"

    def _flush(self) -> None:
        if not self._run:
            return
        names = [name for _, name in self._run]
        codes = "".join(code for code, _ in self._run)
        self._run.clear()
        if codes == "B":
            self._source.line(f"{names[0]} = data[position]")
            self._source.line("position += 1")
            return
        target = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        unpack = self._source.unpacker(codes)
        self._source.line(f"{target} = {unpack}(data, position)")
        self._source.line(f"position += {struct.calcsize('>' + codes)}")

    def _struct(self, declared: Any) -> str:
        values = {
            field.name: self._value(field, field.name) for field in self._layout.ordinary(declared)
        }
        if self._layout.flexible:
            values |= self._tagged_section(declared)
        self._flush()
        return self._build(declared, values)

    def _build(self, declared: Any, values: dict[str, str]) -> str:
        """Make an object without its `__init__`, which would cost as much again."""
        expressions = {
            field.name: values.get(field.name) or self._default(field) for field in declared.FIELDS
        }
        made = self._source.fresh("made")
        self._source.line(f"{made} = new({self._source.constant(declared.__name__, declared)})")
        for name, expression in expressions.items():
            self._source.line(f"{made}.{name} = {expression}")
        return made

    def _default(self, field: Field) -> str:
        default = field.default
        if default is None or isinstance(default, (bool, int, str)):
            return repr(default)
        if default is list:
            return "[]"
        if field.kind is Kind.STRUCT and default is field.struct:
            return self._build(default, {})
        name = self._source.constant("default", default)
        return f"{name}()" if callable(default) else name

    def _value(self, field: Field, stem: str) -> str:
        """Write what reads a value; return the name it will have after the next flush."""
        self._path.append(field.name or "[]")
        if field.kind in CODES:
            name = self._source.fresh(stem)
            self._run.append((CODES[field.kind], name))
        elif field.kind is Kind.STRUCT:
            name = self._nested(field, stem)
        elif field.kind is Kind.ARRAY:
            name = self._sized(field, stem, "count", self._array)
        else:
            name = self._sized(field, stem, "length", self._blob)
        self._path.pop()
        return name

    def _nested(self, field: Field, stem: str) -> str:
        if not self._layout.nullable(field):
            return self._struct(field.struct)
        name, mark = self._source.fresh(stem), self._source.fresh("mark")
        self._run.append(("b", mark))
        self._flush()
        with self._source.block(f"if {mark} < 0:"):
            self._source.line(f"{name} = None")
        with self._source.block("else:"):
            self._source.line(f"{name} = {self._struct(field.struct)}")
        return name

    def _sized(
        self, field: Field, stem: str, unit: str, body: Callable[[Field, str, str], None]
    ) -> str:
        """Write what reads a length or count, deals with null, and then reads the rest."""
        name, size = self._source.fresh(stem), self._source.fresh(unit)
        short = field.kind is Kind.STRING
        self._run.append(("B" if self._layout.flexible else "h" if short else "i", size))
        self._flush()
        if self._layout.flexible:
            self._compact(field, name, size, body)
        else:
            self._classic(field, name, size, body)
        return name

    def _compact(
        self, field: Field, name: str, size: str, body: Callable[[Field, str, str], None]
    ) -> None:
        source, label = self._source, self._label()
        if not self._layout.nullable(field):
            self._longer(field, size)
            with source.block(f"elif not {size}:"):
                source.line(f"raise null_value({label!r})")
            body(field, name, size)
            return
        with source.block(f"if {size}:"):
            self._longer(field, size)
            body(field, name, size)
        with source.block("else:"):
            source.line(f"{name} = None")

    def _longer(self, field: Field, size: str) -> None:
        """Write what finishes a length of several bytes; compact ones are one more than they say.

        A text may be no longer than in the classic form, as in Kafka: everything that is kept of it
        (the keys of internal topics, for one) counts its bytes in 16 bits.
        """
        with self._source.block(f"if {size} > 127:"):
            self._source.line(f"{size}, position = long_length(data, position, {size})")
            if field.kind is Kind.STRING:
                with self._source.block(f"if {size} > {wire.TEXT_BYTES_MAX + 1}:"):
                    self._source.line(f"raise bad_length({self._label()!r}, {size} - 1)")

    def _classic(
        self, field: Field, name: str, size: str, body: Callable[[Field, str, str], None]
    ) -> None:
        source, label = self._source, self._label()
        if not self._layout.nullable(field):
            with source.block(f"if {size} < 0:"):
                source.line(f"raise bad_length({label!r}, {size})")
            body(field, name, size)
            return
        with source.block(f"if {size} >= 0:"):
            body(field, name, size)
        with source.block(f"elif {size} == -1:"):
            source.line(f"{name} = None")
        with source.block("else:"):
            source.line(f"raise bad_length({label!r}, {size})")

    def _blob(self, field: Field, name: str, size: str) -> None:
        part = f"data[position:{size}]"
        if field.kind is Kind.STRING:
            value = f"{part}.tobytes().decode()" if self._zero_copy else f"{part}.decode()"
        elif field.kind is Kind.BYTES and self._zero_copy:
            value = f"{part}.tobytes()"
        else:
            value = part
        self._source.line(f"{size} += position{' - 1' if self._layout.flexible else ''}")
        self._source.line(f"{name} = {value}")
        self._source.line(f"position = {size}")

    def _array(self, field: Field, name: str, count: str) -> None:
        element = field.element
        assert element is not None  # `fields.array` always gives one
        if self._layout.flexible:
            self._source.line(f"{count} -= 1")
        minimum = self._layout.minimum(element)
        needed = count if minimum == 1 else f"{count} * {minimum}"
        with self._source.block(f"if {needed} > size - position:"):
            self._source.line(f"raise bad_count({self._label()!r}, {count}, size - position)")
        if self._sliced:
            with self._source.block(f"if {count} > left:"):
                self._source.line(f"raise too_many_elements({self._label()!r}, {count}, bound)")
            self._source.line(f"left -= {count}")
        if element.kind in CODES:
            self._scalars(element, name, count, minimum)
            return
        self._source.line(f"{name} = []")
        codes = self._layout.fixed_codes(element.struct) if element.struct else None
        if codes:
            self._fixed_structs(element.struct, name, count, codes)
            return
        with self._source.block(f"for _ in range({count}):"):
            value = self._value(element, "element")
            self._flush()
            self._source.line(f"{name}.append({value})")
            self._pause_point("1")

    def _pause_point(self, cost: str) -> None:
        """Write what yields after so many steps of work, in the form that does."""
        if not self._sliced:
            return
        self._source.line(f"step -= {cost}")
        with self._source.block("if step <= 0:"):
            self._source.line(f"step = {ELEMENTS_PER_STEP}")
            self._source.line("yield")

    def _scalars(self, element: Field, name: str, count: str, size: int) -> None:
        code = CODES[element.kind]
        unpackers = self._source.constant("unpackers", wire.scalar_unpackers(code))
        with self._source.block(f"if {count} < {wire.SMALL_COUNT}:"):
            self._source.line(f"{name} = [*{unpackers}[{count}](data, position)]")
        with self._source.block("else:"):
            if self._sliced:
                self._scalar_pieces(code, name, count, size)
            else:
                self._source.line(f"{name} = unpack_scalars({code!r}, data, position, {count})")
        self._source.line(f"position += {count} * {size}")

    def _scalar_pieces(self, code: str, name: str, count: str, size: int) -> None:
        source = self._source
        piece, first = source.fresh("piece"), source.fresh("first")
        source.line(f"{name} = []")
        with source.block(f"for {first} in range(0, {count}, {wire.SCALARS_PER_STEP}):"):
            source.line(f"{piece} = min({wire.SCALARS_PER_STEP}, {count} - {first})")
            start = f"position + {first} * {size}"
            source.line(f"{name} += unpack_scalars({code!r}, data, {start}, {piece})")
            self._pause_point(f"{piece} >> 4")

    def _fixed_structs(self, declared: Any, name: str, count: str, codes: str) -> None:
        source = self._source
        values = {field.name: source.fresh(field.name) for field in self._layout.ordinary(declared)}
        end = source.fresh("end")
        source.line(f"{end} = position + {count} * {struct.calcsize('>' + codes)}")
        target = ", ".join(values.values()) + ("," if len(values) == 1 else "")
        with source.block(f"for {target} in {source.iterator(codes)}(data[position:{end}]):"):
            source.line(f"{name}.append({self._build(declared, values)})")
            self._pause_point("1")
        source.line(f"position = {end}")

    def _tagged_section(self, declared: Any) -> dict[str, str]:
        source, fields = self._source, self._layout.tagged(declared)
        count = source.fresh("tags")
        self._run.append(("B", count))
        self._flush()
        values = {field.name: source.fresh(field.name) for field in fields}
        for field in fields:
            source.line(f"{values[field.name]} = {self._default(field)}")
        with source.block(f"if {count}:"):
            if fields:
                self._tagged_fields(fields, values, count)
            else:
                self._skipped_tags(count)
        return values

    def _skipped_tags(self, count: str) -> None:
        source = self._source
        if not self._sliced:
            source.line(f"position = skip_tags(data, position, {count})")
            return
        before = source.fresh("before")
        source.line(f"{before} = position")
        source.line(f"position = skip_tags(data, position, {count})")
        self._pause_point(f"position - {before} >> 3")  # a tag is two bytes, or more

    def _tagged_fields(self, fields: list[Field], values: dict[str, str], count: str) -> None:
        source = self._source
        tag, end = source.fresh("tag"), source.fresh("end")
        with source.block(f"if {count} > 127:"):
            source.line(f"{count}, position = long_uvarint(data, position, {count})")
        with source.block(f"for _ in range({count}):"):
            source.line(f"{tag}, position = read_uvarint(data, position)")
            source.line(f"{end}, position = read_uvarint(data, position)")
            source.line(f"{end} += position")
            for index, field in enumerate(fields):
                with source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    value = self._value(field, field.name)
                    self._flush()
                    source.line(f"{values[field.name]} = {value}")
            with source.block("else:"):
                source.line(f"position = {end}")
            with source.block(f"if position != {end}:"):
                source.line(f"raise bad_tag({self._label()!r}, {tag})")
            self._pause_point("1")


_HELPERS = (
    wire.bad_count,
    wire.bad_length,
    wire.bad_tag,
    wire.long_length,
    wire.long_uvarint,
    wire.null_value,
    wire.read_uvarint,
    wire.skip_tags,
    wire.too_many_elements,
    wire.undecodable,
    wire.unpack_scalars,
)
