"""Composes the rooms: settings, the Celery application, URLs, the WSGI entry point."""

from project.celery import app

__all__ = ["app"]
