from django.contrib import admin
from django.urls import include, path

from jobs.api import errors, health, metrics, published
from jobs.api.requests import only_read

urlpatterns = [
    path("", only_read(published.start)),
    path("healthz", only_read(health.healthz)),
    path("readyz", only_read(health.readyz)),
    path("metrics", only_read(metrics.metrics)),
    path("api/schema/", only_read(published.schema)),
    path("api/docs/", only_read(published.docs)),
    path("api/v1/", include("jobs.api.urls")),
    path("admin/", admin.site.urls),
]
handler400 = errors.bad_request
handler404 = errors.not_found
handler500 = errors.server_error
