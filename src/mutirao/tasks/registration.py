"""`app.topic` and `@app.subscriber`, of applications and blueprints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from mutirao.errors import InvalidTask, UnknownTopic
from mutirao.tasks.options import TaskTerms
from mutirao.tasks.registry import TaskRegistry, TopicApp
from mutirao.tasks.task import Task

if TYPE_CHECKING:
    from mutirao.model.topics.subscriptions import Subscription
    from mutirao.tasks.topics.subscribers import Subscribing
    from mutirao.tasks.topics.subscription_options import SubscriberTerms
    from mutirao.tasks.topics.topics import Topic

T = TypeVar("T")


class TopicRegistry(TaskRegistry, TopicApp, Protocol):
    """The part of an application, or of a blueprint, that has topics and subscribers."""

    @overload
    def topic(self, name: str, kind: type[T], /, **options: Unpack[TaskTerms]) -> Topic[T]: ...
    @overload
    def topic(self, name: str, /, **options: Unpack[TaskTerms]) -> Topic[Any]: ...
    def topic(self, name: str, kind: Any = Any, /, **options: Unpack[TaskTerms]) -> Topic[Any]:
        """Register a topic: `orders = app.topic("order.placed", OrderPlaced)`.

        Parameters:
            name: words of letters, digits, `_` and `-`, with dots between them.
            kind: the type of the events: a dataclass, a Struct, a model, or any object of JSON
                unless given.
            options: of the task whose jobs are the publications: queue, priority, retry, …

        Raises:
            InvalidTopic: the name is invalid.
            InvalidTask: there is one of that name, or JSON has no form for the type.
            InvalidJob, InvalidLimit: an option is out of range.
            TypeError: an option is unknown.
        """
        from mutirao.model.topics.topics import check_topic
        from mutirao.tasks.topics.subscription_options import options_of
        from mutirao.tasks.topics.topics import Topic

        made: Topic[Any] = Topic(self, check_topic(name), kind, options_of(options))
        self.register(made)
        return made

    def subscriber(
        self,
        id: str,
        /,
        *,
        topic: str | Topic[Any] | None = None,
        **options: Unpack[SubscriberTerms],
    ) -> Subscribing:
        """Subscribe a function to a topic: it runs once for each publication, as a job of its own.

        It may take the published event as its argument, and `event: Event`. When a worker with this
        code starts, it writes the subscription to the database, where it stays until it is removed.

        Parameters:
            id: the name of the subscription and of its task.
            topic: a topic, its name, or a pattern: `order.*` is each topic that begins with
                `order.`, `*` is any. Without one it has no subscription of its own, but those that
                `app.subscriptions.put` makes. Its arguments and fields are checked against a topic
                that is registered by then.
            options: the fields of `SubscriberTerms`: tenant, group, filter, and those of the task:
                queue, priority, retry, timeout, limit, …

        Raises:
            InvalidTopic: it is no topic and no pattern.
            InvalidSubscription: the filter is invalid.
            InvalidTask: the id is taken, or the function takes an argument that no delivery has.
            InvalidJob, InvalidLimit: an option is out of range.
            TypeError: an option is unknown.
        """
        if callable(id):
            raise InvalidTask(
                f"@app.subscriber was given {id!r} in place of an id; write"
                ' @app.subscriber("reindex", topic=…)'
            )
        from mutirao.model.topics.topics import task_of
        from mutirao.tasks.topics.subscribers import Subscribing
        from mutirao.tasks.topics.topics import Topic

        known = self.tasks.get(task_of(topic)) if isinstance(topic, str) else None
        return Subscribing(self, id, known if isinstance(known, Topic) else topic, options)

    def topic_named(self, name: str) -> Topic[Any]:
        """Return a registered topic; otherwise raise UnknownTopic with similar names."""
        from mutirao.tasks.topics.topics import Topic

        known = {each.topic: each for each in self.tasks.values() if isinstance(each, Topic)}
        if name not in known:
            from difflib import get_close_matches

            like = ", ".join(get_close_matches(name, known))
            there = f"do you mean {like}?" if like else f"there are: {', '.join(known) or 'none'}"
            raise UnknownTopic(f"no topic {name!r} is registered here; {there}")
        return known[name]


def subscriptions_of(tasks: Mapping[str, Task[..., Any]]) -> list[Subscription]:
    """Return the subscriptions of those of these tasks that are subscribers."""
    from mutirao.tasks.topics.subscribers import Subscriber

    found = (task.subscription for task in tasks.values() if isinstance(task, Subscriber))
    return [each for each in found if each is not None]
