"""Django: an order and the job that sends its receipt, in one transaction.

    export DATABASE_URL=postgresql://…  PENSTOCK_URL=http://127.0.0.1:9324  PENSTOCK_TOKEN=me
    python examples/django_shop.py create-table
    penstock worker examples.django_shop:app
    python examples/django_shop.py runserver
    curl -d 'email=ada@example.com&total=40' http://127.0.0.1:8000/orders

The Penstock server runs on the same database: `penstock serve --database-url`.
"""

from __future__ import annotations

import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import connection, models, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST
from psycopg.conninfo import conninfo_to_dict

from penstock import App
from penstock.client import transactions

found = conninfo_to_dict(os.environ.get("DATABASE_URL", ""))
settings.configure(
    DEBUG=True,
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for this example",
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": found.get("dbname", "postgres"),
            "USER": found.get("user", ""),
            "PASSWORD": found.get("password", ""),
            "HOST": found.get("host", ""),
            "PORT": found.get("port", ""),
        }
    },
)
django.setup()

app = App(queue="receipts")


class Order(models.Model):
    email = models.EmailField()
    total = models.DecimalField(max_digits=10, decimal_places=2)
    receipt = models.TextField(default="")

    class Meta:
        app_label = "shop"


@app.task(max_retries=5)
def send_receipt(order_id: int) -> str:
    """Runs in a worker, after the order is committed."""
    order = Order.objects.get(pk=order_id)
    order.receipt = f"{order.email} paid {order.total}"
    order.save(update_fields=["receipt"])
    # The worker calls tasks in threads; Django keeps a connection for each.
    connection.close()
    return order.receipt


@require_POST
def orders(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"], total=request.POST["total"])
        job_id = transactions.enqueue(connection, send_receipt.job(order.pk))
        if float(order.total) <= 0:
            # Neither the order nor the job exists afterwards.
            transaction.set_rollback(True)
            return JsonResponse({"error": "total must be positive"}, status=400)
    return JsonResponse({"order": order.pk, "job": job_id}, status=201)


urlpatterns = [path("orders", orders)]


def create_table() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Order)


if __name__ == "__main__":
    if sys.argv[1:] == ["create-table"]:
        create_table()
    else:
        execute_from_command_line(sys.argv)
