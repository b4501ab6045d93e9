"""What there is: classes, types, and the caller itself; and what operators change of it."""

from jobs.api.control import ChangeClass, ChangeClient, ChangeType
from jobs.api.openapi import examples, shapes_of_classes
from jobs.api.openapi.parts import AnswerType, Operation
from jobs.keys import OPS_READ, OPS_WRITE, TO_LOOK

_CHANGE = ("unsupported_media_type", "not_found", "invalid_request", "limit_out_of_range")

OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/client",
        "readClient",
        "Read what you may do",
        tag="You",
        scope=TO_LOOK,
        answers=(AnswerType(200, "You.", shapes_of_classes.Client, {"a client": examples.CLIENT}),),
    ),
    Operation(
        "GET",
        "/api/v1/classes",
        "listClasses",
        "See the room in each class",
        tag="Classes",
        scope=TO_LOOK,
        answers=(
            AnswerType(
                200, "All classes.", shapes_of_classes.CostClasses, {"one class": {"classes": [examples.CLASS]}}
            ),
        ),
    ),
    Operation(
        "GET",
        "/api/v1/classes/{name}",
        "readClass",
        "See the room in one class",
        tag="Classes",
        scope=TO_LOOK,
        answers=(AnswerType(200, "The class.", shapes_of_classes.CostClass, {"light": examples.CLASS}),),
        problems=("not_found",),
    ),
    Operation(
        "PATCH",
        "/api/v1/classes/{name}",
        "changeClass",
        "Pause, drain or resume a class, or override its limits",
        tag="Operations",
        scope=OPS_WRITE,
        description=(
            "Nothing of a paused class starts; it takes jobs, which keep their place and expire in their time. A class that drains takes no more, "
            "and what it has goes on. It holds everywhere at once; limits within a second."
        ),
        body=ChangeClass,
        body_examples={
            "pause": {"paused": True, "why": "the solver's licence server is down"},
            "drain": {"draining": True},
            "resume": {"paused": False, "draining": False},
            "override a limit": {"max_waiting": 20},
            "take an override back": {"max_waiting": None},
        },
        answers=(AnswerType(200, "The class, as it is now.", shapes_of_classes.CostClass, {"light": examples.CLASS}),),
        problems=_CHANGE,
    ),
    Operation(
        "PATCH",
        "/api/v1/types/{name}",
        "changeType",
        "Pause, refuse or resume one job type",
        tag="Operations",
        scope=OPS_WRITE,
        description="In all classes. Of a paused type nothing starts; of a refused one nothing more is taken.",
        body=ChangeType,
        body_examples={"pause": {"paused": True}, "resume": {"paused": False, "refused": False}},
        answers=(
            AnswerType(
                200,
                "The type, as it is now.",
                shapes_of_classes.TypeSwitches,
                {"paused": {"name": "numbers.square", "paused": True, "refused": False}},
            ),
        ),
        problems=_CHANGE,
    ),
    Operation(
        "PATCH",
        "/api/v1/clients/{name}",
        "changeClient",
        "Suspend or resume one client",
        tag="Operations",
        scope=OPS_WRITE,
        description="It can submit nothing, with any of its keys, and nothing that it has waiting starts. What runs goes on; it can read and cancel.",
        body=ChangeClient,
        body_examples={"suspend": {"suspended": True, "why": "a loop in its cron job"}, "resume": {"suspended": False}},
        answers=(
            AnswerType(
                200,
                "The client, as it is now.",
                shapes_of_classes.ClientSwitches,
                {"suspended": {"name": "shop", "suspended": True}},
            ),
        ),
        problems=_CHANGE,
    ),
    Operation(
        "GET",
        "/api/v1/controls",
        "listControls",
        "See what operators have changed",
        tag="Operations",
        scope=OPS_READ,
        answers=(
            AnswerType(
                200, "What stands.", shapes_of_classes.Controls, {"one class": {"controls": [examples.CONTROL]}}
            ),
        ),
    ),
    Operation(
        "GET",
        "/api/v1/types",
        "listTypes",
        "List what can be submitted",
        tag="Types",
        scope=TO_LOOK,
        answers=(
            AnswerType(200, "All job types.", shapes_of_classes.JobTypes, {"one type": {"types": [examples.TYPE]}}),
        ),
    ),
    Operation(
        "GET",
        "/api/v1/types/{name}",
        "readType",
        "See how one type is called",
        tag="Types",
        scope=TO_LOOK,
        answers=(AnswerType(200, "The job type.", shapes_of_classes.JobType, {"numbers.square": examples.TYPE}),),
        problems=("not_found",),
    ),
)
