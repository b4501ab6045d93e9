"""What there is: classes, types, and the caller itself."""

from jobs.api.openapi import examples, shapes
from jobs.api.openapi.parts import AnswerType, Operation
from jobs.keys import READ

OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/client",
        "readClient",
        "Read what you may do",
        tag="You",
        scope=READ,
        answers=(AnswerType(200, "You.", shapes.Client, {"a client": examples.CLIENT}),),
    ),
    Operation(
        "GET",
        "/api/v1/classes",
        "listClasses",
        "See the room in each class",
        tag="Classes",
        scope=READ,
        answers=(AnswerType(200, "All classes.", shapes.CostClasses, {"one class": {"classes": [examples.CLASS]}}),),
    ),
    Operation(
        "GET",
        "/api/v1/classes/{name}",
        "readClass",
        "See the room in one class",
        tag="Classes",
        scope=READ,
        answers=(AnswerType(200, "The class.", shapes.CostClass, {"light": examples.CLASS}),),
        problems=("not_found",),
    ),
    Operation(
        "GET",
        "/api/v1/types",
        "listTypes",
        "List what can be submitted",
        tag="Types",
        scope=READ,
        answers=(AnswerType(200, "All job types.", shapes.JobTypes, {"one type": {"types": [examples.TYPE]}}),),
    ),
    Operation(
        "GET",
        "/api/v1/types/{name}",
        "readType",
        "See how one type is called",
        tag="Types",
        scope=READ,
        answers=(AnswerType(200, "The job type.", shapes.JobType, {"numbers.square": examples.TYPE}),),
        problems=("not_found",),
    ),
)
