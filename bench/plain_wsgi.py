"""Django's WSGI handler as it is, for granian's WSGI interface."""

from django.core.wsgi import get_wsgi_application

from workers import kernel

kernel.die_with_parent()
application = get_wsgi_application()
