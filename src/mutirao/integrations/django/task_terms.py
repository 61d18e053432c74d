"""Options that `django.tasks` lacks: retries, timeouts, keys, limits, of the backend or a task.

`OPTIONS` of the backend has them for all its tasks, `OPTIONS["tasks"]` for single ones by their
path. Where the decorator takes more than Django's own arguments (Django 6.1, django-tasks) it takes
these: `@task(retry=Retry.exponential(3))`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from mutirao.integrations.django.compat import Task, task_backends

# Those of native tasks, apart from what Django says itself. `key` may name arguments in braces.
TERMS = (
    "retry", "max_attempts", "timeout", "stall_timeout", "limit", "keep_result", "tags", "fair_by",
    "findable", "on_conflict", "unique_for", "scope", "debounce_limit", "supersede", "process",
)  # fmt: skip
OF_CALLS = ("key", "tenant", "group")
_OF_BACKEND = ("database", "tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class MutiraoTask(Task):  # type: ignore[misc]
    """A task of `django.tasks` with the options of a native one; None: as the backend says.

    Parameters:
        key: the key of its jobs; `{order_id}` is replaced by that argument.
        tenant, group: whose jobs they are.
    """

    retry: Any = None
    max_attempts: int | None = None
    timeout: Any = None
    stall_timeout: Any = None
    limit: Any = None
    keep_result: Any = None
    tags: Any = None
    fair_by: str | None = None
    findable: bool | None = None
    on_conflict: Any = None
    unique_for: Any = None
    scope: Any = None
    debounce_limit: Any = None
    supersede: Any = None
    process: bool | None = None
    key: str | None = None
    tenant: str | None = None
    group: str | None = None

    @property
    def native(self) -> Any:
        """The native task that runs its jobs; a child process finds it by this one's name."""
        return task_backends[self.backend].native(self)

    def using(self, **changes: Any) -> "MutiraoTask":
        """Return the task with other options for its calls.

        Parameters:
            changes: `priority`, `queue_name`, `run_after`, `backend`, as Django has them; and
                `key`, `tenant`, `group`. None leaves one as it is.
        """
        known = {"priority", "queue_name", "run_after", "backend", *OF_CALLS}
        if unknown := sorted(changes.keys() - known):
            raise TypeError(
                f"using() has no option {', '.join(unknown)}; there are {', '.join(sorted(known))}"
            )
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given |= {name: value for name, value in changes.items() if value is not None}
        return type(self)(**given)


def check_options(options: Mapping[str, Any], where: str) -> None:
    """Raise ImproperlyConfigured if `OPTIONS` has unknown keys."""
    _refuse_unknown(options, (*_OF_BACKEND, *TERMS, *OF_CALLS), where)
    for path, terms in options.get("tasks", {}).items():
        _refuse_unknown(terms, (*TERMS, *OF_CALLS), f"{where}['tasks'][{path!r}]")


def term(task: Any, options: Mapping[str, Any], name: str) -> Any:
    """Return an option of a task: its own, the backend's for it, or for all; None: none said."""
    own = getattr(task, name, None)
    if own is None:
        own = options.get("tasks", {}).get(task.module_path, {}).get(name)
    return options.get(name) if own is None else own


def _refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise ImproperlyConfigured(
            f"{where} has {', '.join(unknown)}; expected some of {', '.join(sorted(known))}"
        )
