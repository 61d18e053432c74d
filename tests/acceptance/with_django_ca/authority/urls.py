"""The admin, and the addresses of certificates."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("ca/", include("django_ca.urls"))]
