"""Which of the team's models lies in which database."""

from typing import Any

ARCHIVED = "archivedload"


class ArchiveRouter:
    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "archive" if _archived(model._meta.app_label, model._meta.model_name) else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool:
        return (db == "archive") == _archived(app_label, model_name)


def _archived(app_label: str, model_name: str | None) -> bool:
    return app_label == "team" and model_name == ARCHIVED
