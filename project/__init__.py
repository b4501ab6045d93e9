"""Composes the rooms: settings, the Celery application, URLs, the web application.

settings (with env and logs), urls, celery
asgi            the web application, as this project sets it up
serving         the bridge from ASGI to Django's WSGI handler; wsgi_call (one call of that), limits (how much of everything)
bodies          request bodies that are held in memory until they are whole
transfers       files on their way in and out, which no memory holds; streams reads and writes them as their callers can
places          shares: no caller has all of what many would have
"""

from project.celery import app

__all__ = ["app"]
