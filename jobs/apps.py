from django.apps import AppConfig
from django.conf import settings


class JobsConfig(AppConfig):
    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import checks, classes, registry  # noqa: F401  checks registers itself
        from jobs.batches import sealing

        sealing.seal_after_ends()
        classes.declared()
        registry.load(settings.WEIGHBRIDGE_JOB_MODULES)
        checks.refuse_impossible_types()
