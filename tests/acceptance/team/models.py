from django.db import models


class Load(models.Model):
    """What was weighed; beside the jobs, in the default database."""

    objects: models.Manager["Load"] = models.Manager()
    job_id = models.UUIDField(primary_key=True)
    kilograms = models.FloatField()


class ArchivedLoad(models.Model):
    """The same, in the team's second database."""

    objects: models.Manager["ArchivedLoad"] = models.Manager()
    job_id = models.UUIDField(primary_key=True)
    kilograms = models.FloatField()
