"""Every operation of the API, in the order of the documentation."""

from jobs.api.openapi import of_batches, of_classes, of_files, of_jobs, of_service

OPERATIONS = (
    *of_jobs.OPERATIONS,
    *of_batches.OPERATIONS,
    *of_files.OPERATIONS,
    *of_classes.OPERATIONS,
    *of_service.OPERATIONS,
)
