"""A named tuple of ours is what typing makes of the same lines."""

from __future__ import annotations

import pickle
import typing

import pytest

from moldau.base.tuples import NamedTuple


class Point(NamedTuple):
    """A place."""

    x: int
    y: int
    name: str | None = None

    @property
    def sum(self) -> int:
        return self.x + self.y


class TheirPoint(typing.NamedTuple):
    """A place."""

    x: int
    y: int
    name: str | None = None

    @property
    def sum(self) -> int:
        return self.x + self.y


def test_it_is_a_tuple_with_names_defaults_and_methods():
    point = Point(1, y=2)
    assert point == (1, 2, None)
    assert (point.x, point.y, point.name, point.sum) == (1, 2, None, 3)
    assert point._replace(x=5) == Point._make((5, 2, None))
    assert repr(point) == "Point(x=1, y=2, name=None)"


def test_a_field_without_a_default_must_be_given():
    with pytest.raises(TypeError, match="y"):
        Point(1)


@pytest.mark.parametrize("name", ["_fields", "_field_defaults", "__doc__", "__module__", "__mro__"])
def test_it_says_of_itself_what_typings_says(name):
    ours, theirs = getattr(Point, name), getattr(TheirPoint, name)
    assert ours == (theirs if name != "__mro__" else (Point, tuple, object))


def test_its_annotations_are_there_for_who_asks():
    hints = typing.get_type_hints(Point)
    assert hints == typing.get_type_hints(TheirPoint)


def test_it_can_be_pickled():
    assert pickle.loads(pickle.dumps(Point(1, 2, "here"))) == Point(1, 2, "here")
