"""Templates of frames: what they render is what the codec would have made."""

from __future__ import annotations

import pytest

from moldau.protocol.frame_template import FrameTemplate
from moldau.protocol.messages.groups import SyncGroupResponse
from moldau.protocol.messages.metadata import ApiVersionsRequest
from moldau.protocol.registry import api_of, encode_request, encode_response, find_api

SYNC_GROUP_KEY, VERSION = 14, 5
REQUEST_HEAD = 4


def answer(correlation_id, assignment, protocol="range"):
    response = SyncGroupResponse(
        protocol_type="consumer", protocol_name=protocol, assignment=assignment
    )
    parts = encode_response(find_api(SYNC_GROUP_KEY), VERSION, correlation_id, response)
    return b"".join(map(bytes, parts))


def template(protocol="range"):
    return FrameTemplate([answer(0, b"mark", protocol)], b"\x05mark")


@pytest.mark.parametrize("assignment", [b"", b"a", b"x" * 100])
def test_an_answer_is_rendered_as_the_codec_makes_it(assignment):
    field = bytes([len(assignment) + 1]) + assignment
    rendered = template().render((77).to_bytes(4), field)
    assert rendered == answer(77, assignment)
    before, after = template().render_around((77).to_bytes(4), len(field))
    assert before + field + after == rendered


def test_a_name_that_looks_like_the_mark_is_left_alone():
    rendered = template("\x05mark").render((7).to_bytes(4), b"\x02a")
    assert rendered == answer(7, b"a", "\x05mark")


def test_without_a_mark_the_frame_is_the_same_but_for_its_correlation_id():
    request = ApiVersionsRequest("a library", "1.0")
    parts = encode_request(api_of(request), 3, 0, "me", request)
    wanted = encode_request(api_of(request), 3, 9, "me", request)
    made = FrameTemplate(parts, head_size=REQUEST_HEAD).render((9).to_bytes(4))
    assert made == b"".join(map(bytes, wanted))


def test_a_field_is_found_in_a_frame_like_the_template_and_in_no_other():
    frame = answer(77, b"abc")[4:]
    position = template().field_position(frame, 4)
    assert frame[position : position + 4] == b"\x04abc"
    assert template().field_position(frame, 5) is None
    assert template("roundrobin").field_position(frame, 4) is None
    assert template().field_position(frame[:-1] + b"\x01", 4) is None
