"""Links that lead nowhere are found, and those that leave docs/ are turned for the site."""

from types import SimpleNamespace

import pytest
from tools.docs import site_hook
from tools.docs.links import broken_links


@pytest.fixture
def repository(tmp_path):
    for name, text in {
        "docs/page.md": "# A page\n\n## One `word`, two\n\n```sh\n[no](link.md)\n```\n",
        "docs/adr/README.md": "# Decisions\n",
        "bench/README.md": "# Bench\n\n[back](../docs/page.md#one-word-two)\n",
        "bench/RESULTS.md": '# Results\n\n<a id="row"></a>\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("page.md#one-word-two", None),
        ("#a-new-page", None),
        ("../bench/RESULTS.md#row", None),
        ("adr", None),
        ("https://localhost/page", None),
        ("missing.md", "docs/new.md: missing.md does not exist"),
        ("page.md#two", "docs/new.md: page.md has no #two"),
        ("#two", "docs/new.md:  has no #two"),
    ],
)
def test_a_link_leads_somewhere_or_is_named(repository, link, problem):
    (repository / "docs/new.md").write_text(f"# A new page\n\n[text]({link})\n")
    assert list(broken_links(repository)) == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("page", "link", "turned"),
    [
        ("page.md", "adr/README.md", "adr/README.md"),
        ("page.md", "../bench/RESULTS.md#row", "repository/bench/RESULTS.md#row"),
        ("adr/README.md", "../../bench/RESULTS.md", "../repository/bench/RESULTS.md"),
        ("repository/bench/README.md", "../docs/page.md", "../../page.md"),
        ("repository/bench/README.md", "RESULTS.md", "RESULTS.md"),
        ("page.md", "../bench", "repository/bench/README.md"),
    ],
)
def test_links_that_leave_the_docs_lead_to_copies_on_the_site(repository, page, link, turned):
    config = SimpleNamespace(config_file_path=str(repository / "mkdocs.yml"))
    shown = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    text = "```\n[text]({0})\n```\n[text]({0})\n"
    made = site_hook.on_page_markdown(text.format(link), shown, config, None)
    assert made == f"```\n[text]({link})\n```\n[text]({turned})\n"


@pytest.mark.parametrize(
    ("html", "warned"),
    [
        ('<a href="https://localhost/">', 0),
        ('<script src="assets/bundle.js">', 0),
        ('<script async src="//localhost/x.js">', 1),
        ('<img alt="x" src="https://localhost/x.png"><pre class="mermaid">', 2),
    ],
)
def test_a_page_that_fetches_from_elsewhere_is_told_of(html, warned, caplog):
    shown = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    assert site_hook.on_post_page(html, shown, None) == html
    assert len(caplog.records) == warned
