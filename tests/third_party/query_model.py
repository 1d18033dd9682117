"""SQS as botocore described it before it changed to JSON: today's model, put back into the Query protocol."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import botocore
from botocore.loaders import Loader

VERSION = "2012-11-05"
LIST_ITEMS = {
    "BinaryList": "BinaryListValue",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "StringList": "StringListValue",
}
"""Every other list `ThingList` holds items called `Thing`."""
CODES = {"QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue", "QueueNameExists": "QueueAlreadyExists"}
PREFIXED = {
    "BatchEntryIdsNotDistinct",
    "BatchRequestTooLong",
    "EmptyBatchRequest",
    "InvalidBatchEntryId",
    "MessageNotInflight",
    "PurgeQueueInProgress",
    "QueueDeletedRecently",
    "TooManyEntriesInBatchRequest",
    "UnsupportedOperation",
}


def write_query_model(folder: Path) -> None:
    """Make the folder one that a botocore loader finds SQS in."""
    data: dict[str, Any] = Loader().load_service_model("sqs", "service-2", VERSION)
    target = folder / "sqs" / VERSION
    target.mkdir(parents=True)
    (target / "service-2.json").write_text(json.dumps(in_query(data)))
    for other in (Path(botocore.__file__).parent / "data" / "sqs" / VERSION).iterdir():
        if not other.name.startswith("service-2"):
            shutil.copy(other, target)


def in_query(model: dict[str, Any]) -> dict[str, Any]:
    model = json.loads(json.dumps(model))
    metadata = model["metadata"]
    for word in ("awsQueryCompatible", "jsonVersion", "protocols", "targetPrefix"):
        del metadata[word]
    metadata["protocol"] = "query"
    metadata["xmlNamespace"] = "http://queue.amazonaws.com/doc/2012-11-05/"
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    shapes = model["shapes"]
    for name, shape in shapes.items():
        if shape["type"] == "list":
            shape["member"]["locationName"] = LIST_ITEMS.get(name, name.removesuffix("List"))
        elif shape["type"] == "map":
            shape["key"]["locationName"] = "Key" if name == "TagMap" else "Name"
            shape["value"]["locationName"] = "Value"
        elif shape.get("exception"):
            shape["error"] = {"code": _code(name), "httpStatusCode": 400, "senderFault": True}
        elif shape["type"] == "structure":
            for member, found in shape["members"].items():
                if shapes[found["shape"]]["type"] == "map":
                    found["locationName"] = member[0].upper() + member[1:].removesuffix("s")
    return model


def _code(name: str) -> str:
    return f"AWS.SimpleQueueService.{name}" if name in PREFIXED else CODES.get(name, name)
