"""Every operation of the API, in the order of the documentation."""

from jobs.api.openapi import of_classes, of_jobs, of_service

OPERATIONS = (*of_jobs.OPERATIONS, *of_classes.OPERATIONS, *of_service.OPERATIONS)
