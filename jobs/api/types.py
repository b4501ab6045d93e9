"""What can be submitted."""

from collections.abc import Mapping

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import registry
from jobs.api import control, serializers
from jobs.api.errors import Problem
from jobs.api.view import View
from jobs.control import told
from jobs.keys import OPS_WRITE, TO_LOOK, Needed


class Types(View):
    scopes: Mapping[str, Needed] = {"GET": TO_LOOK}

    def get(self, request: Request) -> Response:
        return Response({"types": [serializers.job_type(job_type) for job_type in registry.all_types()]})


class OneType(View):
    scopes: Mapping[str, Needed] = {"GET": TO_LOOK, "PATCH": OPS_WRITE}

    def get(self, request: Request, name: str) -> Response:
        job_type = registry.get(name)
        if job_type is None:
            raise Problem.not_found("There is no job type of that name.")
        return Response(serializers.job_type(job_type))

    def patch(self, request: Request, name: str) -> Response:
        control.change(request, "type", name, control.ChangeType)
        return Response(told.switches_of("type", name))
