"""What is left of a client's text in a message."""

from moldau.base.texts import NAME_LENGTH_MAX, shorten, shorten_list


def test_a_name_that_is_not_too_long_is_repeated_whole():
    longest = "n" * NAME_LENGTH_MAX
    assert shorten(longest) == longest


def test_a_longer_name_is_cut_and_shown_to_be():
    assert shorten("n" * 32_767) == "n" * NAME_LENGTH_MAX + "..."
    assert shorten("abcdef", 3) == "abc..."


def test_a_list_of_names_is_cut_as_one_text():
    assert shorten_list(["a", "b", "c"]) == "a, b, c"
    assert shorten_list(["a", "b", "c"], ",") == "a,b,c"
    assert shorten_list(["one", "two", "three"], length_max=8) == "one, two..."
    assert len(shorten_list(["name"] * 100_000)) == NAME_LENGTH_MAX + 3
