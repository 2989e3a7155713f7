"""The collection of our tasks, which a site adds its own to."""

from __future__ import annotations

from typing import Any

from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.tasks import Task

from slurmfab.base.exit_codes import WRONG_INPUT


class Namespace(Collection):
    """Our tasks, to which a site adds its own; none takes the name of one of ours."""

    program: Any  # `fab` or `slurmfab`, which runs

    def add_task(self, task: Task[Any], name: str | None = None, *more: Any, **options: Any) -> None:
        """Add a task of the site. Raises Exit if one of ours has its name."""
        called = self.transform(name or task.name)
        if called in self.tasks and self.tasks[called] is not task:
            raise Exit(
                f"The task {called} of {task.__module__} has the name of a task of slurmfab. "
                "Give it another one: @task(name=...).",
                WRONG_INPUT,
            )
        super().add_task(task, name, *more, **options)


namespace = Namespace()
