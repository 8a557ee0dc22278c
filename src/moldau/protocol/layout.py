"""What one version of a declaration looks like on the wire: the rules both directions share.

A field is on the wire in its `versions`. Where the version is flexible and the field is tagged in
it, the field travels in the tagged section after the struct; else in its place. Nothing here
writes code: `decoding` and `encoding` do.
"""

from __future__ import annotations

from typing import Any

from moldau.base.tuples import NamedTuple
from moldau.protocol.fields import Field, Kind

CODES = {
    Kind.BOOL: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.UINT16: "H",
    Kind.INT32: "i",
    Kind.UINT32: "I",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
    Kind.UUID: "16s",
}
"""Kinds of fixed size and their codes in a big-endian struct."""

SIZES = {
    Kind.BOOL: 1,
    Kind.INT8: 1,
    Kind.INT16: 2,
    Kind.UINT16: 2,
    Kind.INT32: 4,
    Kind.UINT32: 4,
    Kind.INT64: 8,
    Kind.FLOAT64: 8,
    Kind.UUID: 16,
}


class Layout(NamedTuple):
    """One version of a message."""

    version: int
    flexible: bool

    def ordinary(self, declared: type[Any]) -> list[Field]:
        """The fields of a struct that travel in their place, in wire order."""
        return [
            field
            for field in declared.FIELDS
            if self.version in field.versions and not self._is_tagged(field)
        ]

    def tagged(self, declared: type[Any]) -> list[Field]:
        """The fields of a struct that travel in its tagged section, by ascending tag."""
        fields = [
            field
            for field in declared.FIELDS
            if self.version in field.versions and self._is_tagged(field)
        ]
        return sorted(fields, key=lambda field: field.tag or 0)

    def _is_tagged(self, field: Field) -> bool:
        return self.flexible and field.tag is not None and self.version in field.tagged

    def nullable(self, field: Field) -> bool:
        """Tell whether null is legal. Records always may be: an empty fetch answers so."""
        return field.kind is Kind.RECORDS or self.version in field.nullable

    def minimum(self, field: Field) -> int:
        """The fewest bytes a value of this field takes, which bounds counts before allocating."""
        if field.kind in SIZES:
            return SIZES[field.kind]
        if field.kind is Kind.STRUCT:
            if self.nullable(field):
                return 1
            return self.struct_minimum(field.struct)
        if self.flexible:
            return 1
        return 2 if field.kind is Kind.STRING else 4

    def struct_minimum(self, declared: Any) -> int:
        """The fewest bytes a struct takes; at least one, so that no count is free."""
        fields = sum(self.minimum(field) for field in self.ordinary(declared))
        return max(1, fields + self.flexible)

    def fixed_codes(self, declared: Any) -> str | None:
        """The struct codes of an element that has one size whatever its values, or None."""
        fields = self.ordinary(declared)
        if self.flexible or not fields or any(field.kind not in CODES for field in fields):
            return None
        return "".join(CODES[field.kind] for field in fields)

    def carries_records(self, declared: Any) -> bool:
        """Tell whether record batches travel in this struct or below it."""
        for field in self.ordinary(declared):
            inner = field.element or field
            if inner.kind is Kind.RECORDS:
                return True
            if inner.struct is not None and self.carries_records(inner.struct):
                return True
        return False
