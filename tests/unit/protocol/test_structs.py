"""Declared classes behave as slotted dataclasses do."""

import copy
import pickle

import pytest

from moldau.protocol.fields import array, int32, string, struct, struct_field


@struct
class Inner:
    """Part of another."""

    number: int = int32(default=7)


@struct
class Outer:
    """Has one of each kind of default."""

    name: str = string()
    numbers: list[int] = array(int32)
    inner: Inner = struct_field(Inner)
    missing: Inner | None = struct_field(Inner, nullable="0+", default=None)


def test_every_field_has_its_default_and_mutable_ones_are_fresh():
    first, second = Outer(), Outer()
    assert (first.name, first.numbers, first.inner, first.missing) == ("", [], Inner(7), None)
    first.numbers.append(1)
    first.inner.number = 1
    assert (second.numbers, second.inner.number) == ([], 7)


def test_fields_are_given_by_place_or_by_name():
    assert Outer("a", [1], Inner(2)) == Outer(inner=Inner(2), numbers=[1], name="a")


@pytest.mark.parametrize("wrong", [{"nmae": "a"}, {"name": "a", "number": 1}])
def test_unknown_fields_are_refused_by_name(wrong):
    with pytest.raises(TypeError, match=r"nmae|number"):
        Outer(**wrong)


def test_no_other_attribute_can_be_set():
    with pytest.raises(AttributeError):
        Outer().nmae = "a"


def test_they_are_equal_by_value_and_only_within_their_class():
    assert Inner(1) == Inner(1)
    assert Inner(1) != Inner(2)
    assert Inner(1) != (1,)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Inner(1))


def test_they_are_shown_with_their_fields():
    assert repr(Inner(1)) == "Inner(number=1)"


def test_they_are_matched_copied_and_pickled():
    match Outer("a", [1]):
        case Outer(name, numbers):
            assert (name, numbers) == ("a", [1])
    assert copy.deepcopy(Outer("a", [1])) == Outer("a", [1])
    assert pickle.loads(pickle.dumps(Outer("a", [1]))) == Outer("a", [1])
