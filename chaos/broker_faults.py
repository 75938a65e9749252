"""The faults of brokers and databases, of their links, and of what they allow."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, ClassVar

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from .brokers import USER
from .faults import ACCESS, LINKS, THREE, Fault, NoEffectError
from .late_writes import leave_a_gap
from .shapes import SOURCE

if TYPE_CHECKING:
    from .proxy import Link
    from .shapes import Shape
    from .trial import Trial


class BrokerKilled(Fault):
    """kill -9 of a broker, which comes back."""

    def apply(self, trial: Trial) -> None:
        self._number = trial.pick.randint(1, len(trial.brokers.members))
        trial.brokers.kill(self._number)
        time.sleep(trial.pick.uniform(0.5, 3))

    def heal(self, trial: Trial) -> None:
        trial.brokers.restart(self._number)


class _BrokerPaused(Fault):
    """SIGSTOP of a broker; what was sent to it is appended when it continues."""

    seconds: ClassVar[tuple[float, float]] = (1, 6)

    def apply(self, trial: Trial) -> None:
        self._number = trial.pick.randint(1, len(trial.brokers.members))
        trial.brokers.signal(signal.SIGSTOP, self._number)
        time.sleep(trial.pick.uniform(*self.seconds))

    def heal(self, trial: Trial) -> None:
        trial.brokers.signal(signal.SIGCONT, self._number)


class BrokerPaused(_BrokerPaused):
    """A short pause."""


class BrokerPaused30(_BrokerPaused):
    """A pause longer than a session."""

    seconds = (30, 30)


class BrokerPaused150(_BrokerPaused):
    """A pause longer than the time to deliver a record by default."""

    weight = 0.2
    seconds = (150, 150)


class PausedAndGroup(Fault):
    """Records that the dead process had sent are appended when the broker continues."""

    def suits(self, shape: Shape) -> bool:
        return shape.exactly_once

    def apply(self, trial: Trial) -> None:
        numbers = range(1, len(trial.brokers.members) + 1)
        for number in numbers:
            trial.brokers.signal(signal.SIGSTOP, number)
        time.sleep(trial.pick.uniform(0.2, 1))
        trial.run.kill_all()
        trial.run.restart()
        time.sleep(trial.pick.uniform(0, 4))
        for number in numbers:
            trial.brokers.signal(signal.SIGCONT, number)


class Hole(Fault):
    """One partition of the output has results that the others lack."""

    def suits(self, shape: Shape) -> bool:
        return shape.name in {"stateless", "counts"}

    def apply(self, trial: Trial) -> None:
        trial.run.kill_all()
        time.sleep(1)
        leave_a_gap(trial.brokers.address, trial.shape)
        trial.injected()
        trial.run.restart()


class LeaderKilled(Fault):
    """kill -9 of the broker that leads a partition of the output; another takes over."""

    needs = frozenset({THREE})

    def apply(self, trial: Trial) -> None:
        self._number = trial.brokers.leader(trial.topic)
        trial.brokers.kill(self._number)
        trial.brokers.await_leader(trial.topic, other_than=self._number)
        time.sleep(trial.pick.uniform(0, 5))

    def heal(self, trial: Trial) -> None:
        trial.brokers.restart(self._number)


class LeaderPaused(Fault):
    """The leader is paused until another leads; it comes back and still believes that it does."""

    needs = frozenset({THREE})

    def apply(self, trial: Trial) -> None:
        self._number = trial.brokers.leader(trial.topic)
        trial.brokers.signal(signal.SIGSTOP, self._number)
        try:
            trial.brokers.await_leader(trial.topic, other_than=self._number)
        finally:
            trial.brokers.signal(signal.SIGCONT, self._number)


class TwoBrokersKilled(Fault):
    """Fewer brokers than ``min.insync.replicas`` are left: nothing can be acknowledged."""

    needs = frozenset({THREE})

    def apply(self, trial: Trial) -> None:
        self._numbers = trial.pick.sample([1, 2, 3], 2)
        for number in self._numbers:
            trial.brokers.kill(number)
        time.sleep(trial.pick.uniform(5, 15))
        trial.require_silence()

    def heal(self, trial: Trial) -> None:
        for number in self._numbers:
            trial.brokers.members[number - 1].launch()
        for number in self._numbers:
            trial.brokers.members[number - 1].await_ready()


class _LinksChanged(Fault):
    """Links in another state for some seconds."""

    needs = frozenset({LINKS})
    state: ClassVar[dict[str, float]] = {}
    silences: ClassVar[bool] = False
    seconds: ClassVar[tuple[float, float]] = (5, 20)

    def links(self, trial: Trial) -> list[Link]:
        return trial.brokers.client_links()

    def apply(self, trial: Trial) -> None:
        self._links = self.links(trial)
        if not any(link.carried for link in self._links):
            raise NoEffectError("nothing was ever carried by these links")
        trial.change(self._links, **self.state)
        time.sleep(trial.pick.uniform(*self.seconds))
        if self.silences:
            trial.require_silence()

    def heal(self, trial: Trial) -> None:
        trial.change(self._links, **dict.fromkeys(self.state, 0))
        trial.injected()


class ClientDelayed(_LinksChanged):
    """Each way from the pipeline to the brokers takes 300 ms."""

    state: ClassVar = {"delay": 0.3}


class ClientDropped(_LinksChanged):
    """Nothing arrives between the pipeline and the brokers; all of it does afterwards."""

    state: ClassVar = {"dropped": True}
    silences = True


class ClientDropped150(ClientDropped):
    """The same for longer than Kafka's timeouts."""

    weight = 0.2
    seconds = (150, 150)


class ClientCut(_LinksChanged):
    """Connections between the pipeline and the brokers are reset and refused."""

    state: ClassVar = {"cut": True}
    silences = True


class ClientDroppedAndGroup(ClientDropped):
    """The run is killed and restarted while its last records are on their way."""

    seconds = (2, 3)

    def suits(self, shape: Shape) -> bool:
        return shape.exactly_once

    def apply(self, trial: Trial) -> None:
        super().apply(trial)
        trial.run.kill_all()
        trial.run.restart()


class _PeersChanged(_LinksChanged):
    needs = frozenset({LINKS, THREE})

    def links(self, trial: Trial) -> list[Link]:
        one, two = trial.pick.sample([1, 2, 3], 2)
        return trial.brokers.peer_links(one, two)


class PeersDelayed(_PeersChanged):
    """Each way between two brokers takes 300 ms."""

    state: ClassVar = {"delay": 0.3}


class PeersDropped(_PeersChanged):
    """Nothing arrives between two brokers."""

    state: ClassVar = {"dropped": True}


class PeersCut(_PeersChanged):
    """Connections between two brokers are reset and refused."""

    state: ClassVar = {"cut": True}


class LeaderCutOff(_LinksChanged):
    """The leader of the output cannot reach the other brokers, only the clients."""

    needs = frozenset({LINKS, THREE})
    state: ClassVar = {"cut": True}
    seconds = (10, 20)

    def links(self, trial: Trial) -> list[Link]:
        leader = trial.brokers.leader(trial.topic)
        pairs = [trial.brokers.peer_links(leader, n) for n in (1, 2, 3) if n != leader]
        return [link for pair in pairs for link in pair]


class AccessRevoked(Fault):
    """An ACL denies the pipeline its source or its output, and is removed again."""

    needs = frozenset({ACCESS})

    def apply(self, trial: Trial) -> None:
        topic = trial.pick.choice([SOURCE, trial.topic])
        place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*")
        self._denial = (*place, AclOperation.ALL, AclPermissionType.DENY)
        admin = AdminClient({"bootstrap.servers": trial.brokers.address})
        for future in admin.create_acls([AclBinding(*self._denial)]).values():
            future.result(30)
        time.sleep(trial.pick.uniform(5, 25))
        trial.require_silence()

    def heal(self, trial: Trial) -> None:
        admin = AdminClient({"bootstrap.servers": trial.brokers.address})
        for future in admin.delete_acls([AclBindingFilter(*self._denial)]).values():
            if not future.result(30):
                raise NoEffectError("there was no ACL to remove")
        trial.injected()


class PartitionAdded(Fault):
    """The source gets one more partition."""

    keeps_order = False

    def suits(self, shape: Shape) -> bool:
        return not shape.aligned

    def apply(self, trial: Trial) -> None:
        admin = AdminClient({"bootstrap.servers": trial.brokers.address})
        before = len(admin.list_topics(SOURCE, 30).topics[SOURCE].partitions)
        for future in admin.create_partitions([NewPartitions(SOURCE, before + 1)]).values():
            future.result(30)


class DatabaseKilled(Fault):
    """The database crashes and comes back."""

    def suits(self, shape: Shape) -> bool:
        return shape.output != "kafka"

    def apply(self, trial: Trial) -> None:
        trial.database.stop()
        time.sleep(trial.pick.uniform(1, 10))

    def heal(self, trial: Trial) -> None:
        trial.database.start()
