"""The admin: jobs, schedules, limits, subscriptions, endpoints, and the audit of actions.

Everything is read from the views, and done through the client. Permissions are those of the models:
`mutirao.view_job`, `mutirao.cancel_job` …
"""

from django.contrib import admin

from mutirao.integrations.django import models
from mutirao.integrations.django.admin.jobs_page import JobAdminPage
from mutirao.integrations.django.admin.named_pages import (
    EndpointPage,
    LimitPage,
    SchedulePage,
    SubscriptionPage,
)
from mutirao.integrations.django.admin.read_page import AuditPage, GraphPage, WorkerPage

admin.site.register(models.Job, JobAdminPage)
admin.site.register(models.Schedule, SchedulePage)
admin.site.register(models.Limit, LimitPage)
admin.site.register(models.Subscription, SubscriptionPage)
admin.site.register(models.Endpoint, EndpointPage)
admin.site.register(models.Worker, WorkerPage)
admin.site.register(models.Graph, GraphPage)
admin.site.register(models.Action, AuditPage)
