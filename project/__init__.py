"""Composes the rooms: settings, the Celery application, URLs, the web application.

Where what is:

    composed        settings (with env and logs), urls, celery; asgi, the web application as this project sets it up
    serving         the bridge from ASGI to Django's WSGI handler; heads (what a request says before its body), wsgi_call (one call of
                    Django), request_threads (in which it is called, with fair_turns), limits (how much of everything)
    who calls       callers (whose a key is, as far as the event loop knows), places (shares: nobody has all of what many would have)
    bodies          in memory until they are whole
    transfers       files on their way in and out, which no memory holds; streams reads and writes them as their callers can
"""

from project.celery import app

__all__ = ["app"]
