"""The generated pages of the reference are those that the code makes today."""

from tools.docs.reference import reference_pages, written_pages


def test_the_reference_is_current():
    wanted, written = reference_pages(), written_pages()
    names = wanted.keys() | written.keys()
    stale = {name for name in names if wanted.get(name) != written.get(name)}
    assert not stale, "run `make reference`"
