"""The room in each cost class, as callers may see it."""

from collections.abc import Mapping

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import classes, queries
from jobs.api import control, serializers
from jobs.api.errors import Problem
from jobs.api.view import View
from jobs.keys import OPS_WRITE, TO_LOOK, Needed


class Classes(View):
    scopes: Mapping[str, Needed] = {"GET": TO_LOOK}

    def get(self, request: Request) -> Response:
        return Response({"classes": [serializers.cost_class(view) for view in queries.class_views()]})


class OneClass(View):
    scopes: Mapping[str, Needed] = {"GET": TO_LOOK, "PATCH": OPS_WRITE}

    def get(self, request: Request, name: str) -> Response:
        if name not in classes.declared():
            raise Problem.not_found("There is no cost class of that name.")
        return Response(serializers.cost_class(queries.class_view(name)))

    def patch(self, request: Request, name: str) -> Response:
        control.change(request, "class", name, control.ChangeClass)
        return Response(serializers.cost_class(queries.look_at_class(name)))
