from django.contrib import admin
from django.urls import include, path

from jobs.api import errors, health, metrics

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("api/v1/", include("jobs.api.urls")),
    path("admin/", admin.site.urls),
]
handler400 = errors.bad_request
handler404 = errors.not_found
handler500 = errors.server_error
