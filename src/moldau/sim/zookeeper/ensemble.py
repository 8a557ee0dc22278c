"""The servers of a simulated ensemble, its sessions, and the faults of both.

Writes are decided and committed at once by the leader, in the order in which they arrive. Each
server applies them after a drawn delay, all in the same order, and answers reads from what it has.
So two clients may see different states, and a client sees its own writes. A session lives at the
ensemble: it expires when nothing was heard of it for its time-out, whatever its client believes.

Faults are called by the name of a client, and apply to its newest session:

    ensemble = SimEnsemble(world)
    zookeeper = SimZooKeeper(ensemble, "broker-1")    # the port, for that process
    ensemble.lose_connection("broker-1")    # some of what was under way arrives, no answer does
    ensemble.expire("broker-1")             # over; the client hears of it when it reconnects
    ensemble.cut("broker-1")                # silence, and nobody is told; until heal
    ensemble.lag("broker-1")                # its server falls behind; until catch_up
    ensemble.stop()                         # no server is there; until start

A process that is paused or has ended is not heard of any more, so its session expires.
"""

from __future__ import annotations

import contextvars
import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Final, Protocol

from moldau.cluster.zookeeper.client.port import DeleteNode, Operation, OperationResult
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.sim.loop import PROCESS
from moldau.sim.world import World
from moldau.sim.zookeeper.pipe import MEAN_DELAY_S, Pipe
from moldau.sim.zookeeper.tree import Transaction, Tree, Watched, Znode, triggers

SERVER_COUNT: Final = 3
FIRST_SESSION_ID: Final = 0x1_0000_0000
TOOL_SESSION_ID: Final = FIRST_SESSION_ID - 1
"""Of whatever is no broker."""


class Client(Protocol):
    """What the ensemble tells a client; all of it arrives in the client's process."""

    name: str
    link: Link | None
    """The connection that the client uses."""

    @property
    def session_id(self) -> int:
        """0 before it has a session."""
        ...

    def hear_connected(self, link: Link, session_id: int) -> None:
        """Learn of a new connection."""
        ...

    def hear_change(self, link: Link, watched: Watched, zxid: int) -> None:
        """Learn that something watched has changed."""
        ...

    def hear_lost(self, link: Link) -> None:
        """Learn that a connection is over."""
        ...

    def hear_expired(self) -> None:
        """Learn that the session is over."""
        ...


class SessionRecord:
    """A session as the ensemble knows it."""

    def __init__(self, session_id: int, client_name: str, timeout_s: float, now_s: float) -> None:
        self.session_id = session_id
        self.client_name = client_name
        self.timeout_s = timeout_s
        self.heard_s = now_s
        self.link: Link | None = None
        """Its newest connection, which may be lost. Requests of older ones are refused."""


class Link:
    """One connection between a client and a server."""

    def __init__(self, server: SimServer, record: SessionRecord, up: Pipe, down: Pipe) -> None:
        self.server = server
        self.record = record
        self.up = up
        self.down = down
        self.watched: dict[Watched, None] = {}
        self.is_open = True
        """Whether the server can answer."""

    def notify(self, watched: Watched, zxid: int, client: Client) -> None:
        """Tell the client that something it watches has changed, once."""
        if self.is_open and watched in self.watched:
            del self.watched[watched]
            self.down.send(functools.partial(client.hear_change, self, watched, zxid))


class SimServer:
    """One server: its tree, and what it has yet to apply."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tree = Tree()
        self.behind: deque[Transaction] = deque()
        self.is_lagging = False
        self.links: dict[Link, Client] = {}

    def apply_next(self) -> None:
        """Apply the oldest transaction and notify those who watch; a server that lags does not."""
        if not self.is_lagging:
            self._apply_oldest()

    def catch_up(self, zxid: int | None = None) -> None:
        """Apply everything up to a transaction, or everything."""
        while self.behind and (zxid is None or self.behind[0].zxid <= zxid):
            self._apply_oldest()

    def _apply_oldest(self) -> None:
        if not self.behind:
            return
        transaction = self.behind.popleft()
        self.tree.apply(transaction)
        for change in transaction.changes:
            for watched in triggers(change):
                for link, client in list(self.links.items()):
                    link.notify(watched, transaction.zxid, client)


class SimEnsemble:
    """A ZooKeeper ensemble on virtual time."""

    def __init__(self, world: World, server_count: int = SERVER_COUNT) -> None:
        self.loop = world.loop
        self.chance = world.random("zookeeper")
        self.is_running = True
        self._clock = world.clock
        self._trace = world.trace
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, "(zookeeper)")
        self._leader = Tree()
        self._servers = [SimServer(number) for number in range(1, server_count + 1)]
        self._sessions: dict[int, SessionRecord] = {}
        self._next_session_id = FIRST_SESSION_ID
        self._clients: dict[str, Client] = {}
        self._cut_off: set[str] = set()
        """Clients that cannot connect anew."""
        self.on_commit: Callable[[int, Transaction], None] = lambda *_: None
        """Called with the session and the transaction of every write."""
        self.on_expiry: Callable[[], None] = lambda: None
        """Called when a session ends that its client has not closed."""

    # Faults

    def lose_connection(self, name: str, *, arriving: bool | None = None) -> None:
        """Break the connection of a client.

        What it has sent and has not arrived yet: all of it still arrives, or nothing, or a drawn
        part. No answer does.
        """
        client = self._clients.get(name)
        if client is None or client.link is None or not client.link.is_open:
            return
        link = client.link
        self._trace.note("zookeeper loses", name)
        under_way = len(link.up)
        if arriving is None:
            link.up.lose(self.chance.randint(0, under_way))
        else:
            link.up.lose(under_way if arriving else 0)
        self._close_link(link, client)
        # A connection that is reset is noticed at once, also by a client that is cut off.
        link.down.release()

    def expire(self, name: str) -> None:
        """End the session of a client, as if nothing had been heard of it."""
        client = self._clients.get(name)
        if client is not None and client.session_id in self._sessions:
            self.on_expiry()
            self._end_session(client.session_id)

    def cut(self, name: str, *, requests: bool = True, answers: bool = True) -> None:
        """Hold what travels to the ensemble, from it, or both. Nobody notices before a time-out."""
        self._trace.note("zookeeper cut", name, requests, answers)
        self._cut_off.add(name)
        for link in self._links_of(name):
            if requests:
                link.up.hold()
            if answers:
                link.down.hold()

    def heal(self, name: str) -> None:
        """Let everything pass again, with what was held."""
        self._trace.note("zookeeper heal", name)
        self._cut_off.discard(name)
        for link in self._links_of(name):
            link.up.release()
            link.down.release()

    def _links_of(self, name: str) -> list[Link]:
        """The connections of a client that either side still takes for open."""
        client = self._clients.get(name)
        links = dict.fromkeys(
            link
            for server in self._servers
            for link, connected in server.links.items()
            if connected is client
        )
        if client is not None and client.link is not None:
            links[client.link] = None
        return list(links)

    def lag(self, name: str) -> None:
        """Let the server of a client apply nothing, until `catch_up`.

        A sync or a write through it still takes it to that point, but no further.
        """
        client = self._clients.get(name)
        if client is not None and client.link is not None:
            self._trace.note("zookeeper lags", client.link.server.number)
            client.link.server.is_lagging = True

    def catch_up(self) -> None:
        """Let no server lag."""
        for server in self._servers:
            server.is_lagging = False
            server.catch_up()

    def stop(self) -> None:
        """Let no server be there. What is not committed is lost; sessions do not expire."""
        self._trace.note("zookeeper stops")
        self.is_running = False
        for server in self._servers:
            for link, client in list(server.links.items()):
                link.up.lose()
                self._close_link(link, client)

    def start(self) -> None:
        """Let the ensemble be there again; its leader gives every session its time-out anew."""
        self._trace.note("zookeeper starts")
        self.is_running = True
        self.catch_up()
        for record in self._sessions.values():
            record.heard_s = self.loop.time()

    # Looking at it from outside

    def find(self, path: str) -> Znode | None:
        """Return a node as the leader has it."""
        return self._leader.find(path)

    def nodes(self) -> dict[str, StoredNode]:
        """Return all nodes as the leader has them."""
        return {
            path: StoredNode(node.data, node.version, node.czxid)
            for path, node in self._leader.items()
        }

    # What clients do. All of it runs outside of their processes.

    def call(self, message: Callable[[], None]) -> None:
        """Let something without a connection reach the ensemble."""
        self.loop.call_later(self.loop.delay_s(MEAN_DELAY_S), message, context=self._context.copy())

    def connect(self, client: Client, receiver: Context, timeout_s: float, last_zxid: int) -> None:
        """Connect a client to a server, in its session or a new one; or tell it of its expiry."""
        if not self.is_running or client.name in self._cut_off:
            return
        record = self._sessions.get(client.session_id)
        if record is None and client.session_id:
            down = Pipe(self.loop, receiver)
            down.send(client.hear_expired)
            return
        if record is None:
            record = self._new_session(client.name, timeout_s)
        elif record.link is not None:
            self._close_link(record.link, client)
        server = self.chance.choice(self._servers)
        # A real server that is older than what the client has seen refuses it.
        server.catch_up(last_zxid)
        up, down = Pipe(self.loop, self._context), Pipe(self.loop, receiver)
        record.link = Link(server, record, up, down)
        record.heard_s = self.loop.time()
        server.links[record.link] = client
        self._clients[client.name] = client
        down.send(functools.partial(client.hear_connected, record.link, record.session_id))

    def keep_watches(
        self, link: Link, client: Client, kept: Mapping[Watched, bool], zxid: int
    ) -> None:
        """Go on with the watches of a client that was connected elsewhere until a transaction."""
        if not self.is_current(link):
            return
        for watched, existed in kept.items():
            link.watched[watched] = None
            tree = link.server.tree
            if tree.has_changed(watched, existed=existed, since_zxid=zxid):
                link.notify(watched, tree.zxid, client)

    def is_current(self, link: Link) -> bool:
        """Whether a request that arrives on a link counts; then its session was heard of."""
        record = link.record
        if (
            not self.is_running
            or record.link is not link
            or self._sessions.get(record.session_id) is not record
        ):
            return False
        record.heard_s = self.loop.time()
        return True

    def write(self, link: Link, operations: Sequence[Operation]) -> list[OperationResult]:
        """Commit for the session of a link; its server has it when this returns."""
        transaction, results = self._leader.write(
            operations, link.record.session_id, self._clock.wall_ms()
        )
        self._commit(link.record.session_id, transaction)
        link.server.catch_up(transaction.zxid)
        return results

    def write_as_tool(self, operation: Operation) -> None:
        """Commit for a tool, in a session that is over by now; NodeError if that cannot be."""
        transaction, _ = self._leader.write([operation], TOOL_SESSION_ID, self._clock.wall_ms())
        self._commit(TOOL_SESSION_ID, transaction)

    def close_session(self, link: Link) -> None:
        """End a session because its client asks for that; what was answered before arrives."""
        link.is_open = False
        client = link.server.links.pop(link)
        self._end_session(link.record.session_id)
        link.down.send(functools.partial(client.hear_lost, link))

    # Inside

    def _commit(self, session_id: int, transaction: Transaction) -> None:
        self._trace.note("zookeeper commits", transaction.zxid)
        self.on_commit(session_id, transaction)
        for server in self._servers:
            server.behind.append(transaction)
            delay_s = self.loop.delay_s(MEAN_DELAY_S)
            self.loop.call_later(delay_s, server.apply_next, context=self._context.copy())

    def _new_session(self, client_name: str, timeout_s: float) -> SessionRecord:
        record = SessionRecord(self._next_session_id, client_name, timeout_s, self.loop.time())
        self._next_session_id += 1
        self._sessions[record.session_id] = record
        self._expire_later(record, timeout_s)
        return record

    def _expire_later(self, record: SessionRecord, delay_s: float) -> None:
        self.loop.call_later(delay_s, self._expire_if_silent, record, context=self._context.copy())

    def _expire_if_silent(self, record: SessionRecord) -> None:
        if self._sessions.get(record.session_id) is not record:
            return
        left_s = record.heard_s + record.timeout_s - self.loop.time()
        if left_s > 0 or not self.is_running:
            self._expire_later(record, left_s if left_s > 0 else 1.0)
        else:
            self.on_expiry()
            self._end_session(record.session_id)

    def _end_session(self, session_id: int) -> None:
        record = self._sessions.pop(session_id, None)
        if record is None:
            return
        self._trace.note("zookeeper ends", record.client_name, session_id)
        owned = self._leader.owned_by(session_id)
        if owned:
            deletes = [DeleteNode(path) for path in owned]
            transaction, _ = self._leader.write(deletes, session_id, self._clock.wall_ms())
            self._commit(session_id, transaction)
        link = record.link
        if link is not None and link.is_open:
            self._close_link(link, link.server.links[link])

    def _close_link(self, link: Link, client: Client) -> None:
        """Let a server close a connection: answers under way are lost, the client is told."""
        if not link.is_open:
            return
        link.is_open = False
        link.server.links.pop(link, None)
        link.down.lose()
        link.down.send(functools.partial(client.hear_lost, link))
