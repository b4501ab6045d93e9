"""The operators' side. Django's admin discovers this package; each file registers one kind of page."""

from django.contrib import admin

from jobs.admin import batches as batches
from jobs.admin import control as control
from jobs.admin import files as files
from jobs.admin import jobs as jobs
from jobs.admin import limits as limits
from jobs.admin import outbox as outbox
from jobs.admin import people as people
from jobs.admin import running as running

admin.site.site_header = admin.site.site_title = "Weighbridge"
admin.site.site_url = None  # there is no other site to view
