"""Composes the rooms: settings, the Celery application, URLs, the web application."""

from project.celery import app

__all__ = ["app"]
