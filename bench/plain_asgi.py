"""Django's own ASGI handler as it is."""

from django.core.asgi import get_asgi_application

from workers import kernel

kernel.die_with_parent()
application = get_asgi_application()
