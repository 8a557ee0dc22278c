"""Another node of a quorum, on the simulated network: it speaks the protocol, a test what it says.

It knows the APIs of a controller, and says so. Every answer is given by a function of the request;
None keeps the request without an answer.
"""

from __future__ import annotations

from moldau.base.network import Address
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api

PORT = 9093
REBOOTSTRAP_REQUIRED = 129
FETCH, VERSIONS, VOTE, BEGIN, END, SNAPSHOT = 1, 18, 52, 53, 54, 59


class QuorumNode:
    """One node; `asked` holds the requests with the versions in which they came."""

    def __init__(self, network, number, answer=None):
        self.number = number
        self.name = f"node-{number}"
        self.address = Address(self.name, PORT)
        self.newest = {
            key: find_api(key).versions.last
            for key in (FETCH, VERSIONS, VOTE, BEGIN, END, SNAPSHOT)
        }
        self.features = []
        self.asked = []
        self.streams = []
        self.answer = answer
        self.network = network
        self._host = network.host(self.name)

    async def start(self, port=PORT):
        """Listen, as a new process if the one before was killed."""
        self.address = Address(self.name, port)
        self._host = self.network.host(self.name)
        await self._host.listen(self.name, port, self._accept)

    def kill(self):
        self.network.crash(self.name)

    def requests(self, kind):
        return [request for request, _ in self.asked if isinstance(request, kind)]

    def _accept(self, stream):
        self.streams.append(stream)
        return _Receiver(self, stream)

    def answered(self, header, request):
        """Return an answer; None for a request that is kept."""
        if isinstance(request, ApiVersionsRequest):
            return self._versions(request)
        self.asked.append((request, header.api_version))
        return self.answer(request)

    def _versions(self, request):
        keys = [ApiVersion(key, 0, newest) for key, newest in self.newest.items()]
        is_other = request.node_id not in (-1, self.number)
        error = REBOOTSTRAP_REQUIRED if is_other else 0
        return ApiVersionsResponse(error, keys, supported_features=self.features)


class _Receiver:
    def __init__(self, node, stream):
        self.node = node
        self.stream = stream

    def received(self, data):
        used = 0
        while len(data) - used >= 4:
            size = int.from_bytes(data[used : used + 4], "big")
            if len(data) - used - 4 < size:
                break
            frame = memoryview(bytes(data[used + 4 : used + 4 + size]))
            header = decode_header(frame)
            answer = self.node.answered(header, decode_request(header, frame))
            if answer is not None:
                api = find_api(header.api_key)
                parts = encode_response(api, header.api_version, header.correlation_id, answer)
                self.stream.send(parts)
            used += 4 + size
        return used

    def drained(self):
        pass

    def closed(self, error):
        pass
