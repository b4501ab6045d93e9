"""The operators' side. Django's admin discovers this package; each file registers one kind of page."""

from jobs.admin import jobs as jobs
from jobs.admin import people as people
from jobs.admin import running as running
