"""The pages."""

import json

from django.db import transaction
from django.db.models import Count, Sum
from django.http import HttpRequest, JsonResponse
from django.urls import path

from kiosk.models import Order
from kiosk.tasks import send_receipt

FOUND = {"orders": Count("id"), "receipts": Sum("receipts", default=0)}


def orders(request: HttpRequest) -> JsonResponse:
    """Count orders and receipts; or take an order. A lantern cannot be paid, and has no receipt."""
    if request.method == "GET":
        return JsonResponse(Order.objects.aggregate(**FOUND))
    with transaction.atomic():
        order = Order.objects.create(item=json.loads(request.body)["item"])
        send_receipt.enqueue(order=order.pk)
        if order.item == "lantern":
            transaction.set_rollback(True)
            return JsonResponse({"error": "the card was refused"}, status=402)
    return JsonResponse({"id": order.pk}, status=201)


urlpatterns = [path("orders", orders)]
