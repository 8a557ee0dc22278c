"""Whatever updates of features are asked for, no level is reached that cannot be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_samples import after, every_change
from moldau.cluster.changes import FeatureLevelSet
from moldau.cluster.feature_updates import FeatureUpdate, QuorumContext, update_features
from moldau.cluster.features import KraftLevels, supported_features
from moldau.cluster.image import MetadataImage
from moldau.cluster.record_codec import encode_change, metadata_level
from moldau.protocol.errors import ApiError

ALL_FEATURES = tuple(supported_features(MetadataImage(), KraftLevels(0, 1)))
UPDATES = st.builds(
    FeatureUpdate, st.sampled_from((*ALL_FEATURES, "cats")), st.integers(-1, 34), st.integers(0, 4)
)
CONTEXT = QuorumContext(1, {1}, KraftLevels(0, 0), 1)


@settings(max_examples=300)
@given(
    st.integers(7, 30),
    st.sampled_from((0, 1)),
    st.lists(st.lists(UPDATES, min_size=1, max_size=3, unique_by=lambda one: one.name), max_size=8),
)
def test_no_updates_lead_to_a_level_that_is_not_there(level, eligible, requests):
    eligible = eligible if level >= 23 else 0
    image = after(
        MetadataImage(),
        [
            FeatureLevelSet("metadata.version", level),
            FeatureLevelSet("eligible.leader.replicas.version", eligible),
        ],
    )
    for updates in requests:
        try:
            steps = list(update_features(image, updates, CONTEXT))
        except ApiError:
            continue
        following = after(image, steps)
        assert all(following.features.get(one.name, 0) == one.level for one in updates)
        check_reached(image, following)
        image = following


def check_reached(before, image):
    known = supported_features(image, CONTEXT.kraft)
    for name, level in image.features.items():
        assert known[name].minimum <= level <= known[name].maximum
    level = metadata_level(image)
    if image.features.get("eligible.leader.replicas.version"):
        assert level >= 23
    if level < metadata_level(before):
        for change in every_change():
            assert encode_change(change, level) == encode_change(change, metadata_level(before))
