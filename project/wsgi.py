"""The web application."""

import os

from django.core.wsgi import get_wsgi_application

from workers.kernel import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

# A web process that outlived its killed main process would hold the port, and nobody would ever stop it.
die_with_parent()
application = get_wsgi_application()
