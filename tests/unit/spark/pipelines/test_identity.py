"""Which tables and checkpoints belong together, and which are damaged."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.checkpoints import check_checkpoint
from moldau.spark.pipelines.identity import PipelineIdentity, agreed, claim
from moldau.spark.pipelines.storage import LocalFiles

OURS = PipelineIdentity("a", "activity", {"window": 60_000})

typed = PIPELINES["activity"].typed


def test_tables_and_checkpoint_of_one_id_go_on():
    assert agreed(OURS, OURS, OURS._replace(id="new"), typed) == OURS
    placed = OURS._replace(pinned={**OURS.pinned, "out": "/a"})
    assert agreed(OURS, OURS, placed, typed) == OURS  # from before places were written down


@pytest.mark.parametrize(
    ("tables", "checkpoint", "wanted", "reason"),
    [
        (OURS, None, OURS, "checkpoint is new"),
        (None, OURS, OURS, "other tables than these, which are new"),
        (OURS, OURS._replace(id="b"), OURS, "belongs to b"),
        (OURS, OURS, OURS._replace(pipeline="logs"), "pipeline activity, not of logs"),
        (
            OURS,
            OURS,
            OURS._replace(pinned={"window": 30_000}),
            "begun with window=60s, and cannot go on with 30s",
        ),
        (
            OURS,
            OURS,
            OURS._replace(pinned={"window": 1500}),
            "begun with window=60s, and cannot go on with 1500ms",
        ),
        (
            OURS._replace(pipeline="logs", pinned={"max-line": 4000}),
            OURS,
            OURS._replace(pipeline="logs", pinned={"max-line": 5000}),
            "begun with max-line=4000, and cannot go on with 5000",
        ),
        (
            OURS._replace(pinned={"out": "/a"}),
            OURS,
            OURS._replace(pinned={"out": "/b"}),
            "begun with out=/a, and cannot go on with /b",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused_in_one_line(tables, checkpoint, wanted, reason):
    with pytest.raises(UserError, match=reason) as refused:
        agreed(tables, checkpoint, wanted, typed)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("begun", ["checkpoint/live/offsets/0", "batch"])
def test_options_of_a_run_that_has_read_nothing_bind_nobody(tmp_path, begun):
    tables, checkpoint = str(tmp_path), str(tmp_path / "checkpoint")

    def claimed(topic, out="/a"):
        pinned = {"out": out, "topic": topic}
        return claim(LocalFiles(), tables, checkpoint, PIPELINES["activity"], pinned)

    first = claimed("activty")
    (tmp_path / "checkpoint" / "landing" / "offsets").mkdir(parents=True)
    second = claimed("activity")
    assert (second.id, second.pinned["topic"]) == (first.id, "activity")
    with pytest.raises(UserError, match="begun with out=/a"):
        claimed("activity", out="/b")
    LocalFiles().write(f"{tables}/{begun}", "1")
    with pytest.raises(UserError, match="begun with topic=activity, and cannot go on with other"):
        claimed("other")


def test_an_id_is_read_as_it_was_written_and_nonsense_is_refused():
    assert PipelineIdentity.from_json(OURS.to_json(), "f") == OURS
    with pytest.raises(UserError, match="f cannot be read"):
        PipelineIdentity.from_json("{}", "f")


@pytest.mark.parametrize("text", ["", "nonsense", "v1", "v1\n{", "v1\n-\n\xff"])
def test_a_damaged_checkpoint_is_refused_by_name_before_spark_reads_it(tmp_path, text):
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "9").write_text('v1\n{"a": 1}\n-\n{}')
    (tmp_path / "metadata").write_text('{"id": "a"}')
    check_checkpoint(LocalFiles(), str(tmp_path))
    newest = tmp_path / "offsets" / "10"
    newest.write_text(text)
    with pytest.raises(UserError, match=f"{newest} cannot be read") as refused:
        check_checkpoint(LocalFiles(), str(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_checkpoint_of_which_part_is_gone_is_refused_by_name(tmp_path):
    def damage():
        with pytest.raises(UserError, match="the checkpoint is damaged: ") as refused:
            check_checkpoint(LocalFiles(), str(tmp_path))
        return str(refused.value).partition("damaged: ")[2].partition(";")[0]

    metadata = tmp_path / "metadata"
    check_checkpoint(LocalFiles(), str(tmp_path))
    metadata.touch()  # a crash of the machine can leave it empty
    assert damage().startswith(f"{metadata} cannot be read (")
    metadata.write_text('{"id": "a"}')
    check_checkpoint(LocalFiles(), str(tmp_path))

    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "9").write_text("v1\n{}")
    metadata.unlink()
    assert damage() == f"{metadata} is missing"
    metadata.write_text('{"id": "a"}')
    (tmp_path / "offsets" / "9").unlink()
    assert damage() == f"{tmp_path}/offsets/9 is missing"
