"""Names that other modules use for webhooks: a program that sends none loads only these."""

from mutirao.model.limits.limits import Limit

WEBHOOK_TASK, PROBE_TASK = "mutirao.webhook", "mutirao.webhook_probe"
WEBHOOK_QUEUE = "webhooks"
OF_ENDPOINT = "endpoint:"  # prefix of the ids of the subscriptions of endpoints
USUAL_LIMIT_NAME = Limit(1, by="endpoint").on(task=WEBHOOK_TASK).name
