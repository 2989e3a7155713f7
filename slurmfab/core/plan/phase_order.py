"""Which host may begin which phase: after its own earlier phases, and after those of the hosts that the phase needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slurmfab.core.plan.plan import ALL, Phase


class PhaseOrder:
    """How far each host is; one that leaves the run is waited for no longer. `places`: hosts by role.

    `front`: number of the first phase that not all hosts have passed.
    """

    def __init__(
        self, phases: Sequence[Phase], hosts: Iterable[str], places: Mapping[str, Sequence[str]], controller: str
    ) -> None:
        self.phases = phases
        self.places = places
        self.controller = controller
        self.position = dict.fromkeys(hosts, 0)
        self.front = 0
        self._passed = [0] * len(phases)
        self._move_front()

    def pass_phase(self, host: str) -> None:
        """Note that a host is through with its present phase."""
        self._passed[self.position[host]] += 1
        self.position[host] += 1
        self._move_front()

    def leave(self, host: str) -> None:
        """Note that the run goes on without a host."""
        for number in range(self.position.pop(host, 0)):
            self._passed[number] -= 1
        self._move_front()

    def may_begin(self, number: int, host: str) -> bool:
        """Whether a host that is through with earlier phases may begin; alike for all but the primary controller."""
        phase = self.phases[number]
        if ALL in phase.needs:
            is_ready = self.front >= number
        else:
            is_ready = all(self._is_at(number, name) for role in phase.needs for name in self.places[role])
        is_turn = not phase.controller_first or host == self.controller or self._is_at(number + 1, self.controller)
        return is_ready and is_turn

    def _is_at(self, number: int, host: str) -> bool:
        """Whether a host has passed all phases before this one; also true for hosts without a part in the run."""
        return self.position.get(host, number) >= number

    def _move_front(self) -> None:
        """Move the front over the phases that all hosts have passed."""
        while self.front < len(self.phases) and self._passed[self.front] == len(self.position):
            self.front += 1
