"""Where the streaming queries of a lake have their checkpoints: in the lake, when that is a folder.

Spark writes checkpoints itself, and has no way into an object store without a jar. So those of a lake there are in a
folder elsewhere, and may get lost without it. A query without its checkpoint would write all events once more: the lake
remembers that there was one.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as arrow_fs

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.storage import below, filesystem, folder, is_folder, reaching

NAME = "_checkpoints"


def checkpoints_of(lake: str, given: str | None) -> str:
    """The place for those of one lake: no two share one, else the second would leave out what the first has."""
    if is_folder(lake):
        if given is not None:
            raise LakeError(f"the checkpoints of a lake in a folder are in it, below {NAME}: leave --checkpoints out")
        return below(lake, NAME)
    if given is None:
        raise LakeError(f"Spark cannot keep its checkpoints in {lake}: name a folder for them by --checkpoints")
    root = given if "://" in given else os.path.abspath(given)
    return below(root, quote(folder(lake), safe=""))


def remember_checkpoints(lake: str, pipeline: str, place: str) -> None:
    """Raises `LakeError` when the lake had checkpoints for the pipeline, and they are not in this place."""
    if is_folder(lake) or not is_folder(place):
        return
    kept, mark = Path(folder(place)) / pipeline, f"{NAME}/{pipeline}"
    with reaching(lake):
        files = filesystem(lake, {})
        is_marked = files.get_file_info(mark).type == arrow_fs.FileType.File
        if is_marked and not kept.exists():
            before = files.open_input_file(mark).read().decode()
            raise LakeError(
                f"{lake} was written with checkpoints in {before}, and there are none in {kept}: bring them back,"
                " or begin with a new lake"
            )
        kept.mkdir(parents=True, exist_ok=True)
        if not is_marked:
            # With a buffer: deltalake takes bytes from one, and none from Python's own.
            with pa.BufferedOutputStream(files.open_output_stream(mark), 4096) as stream:
                stream.write(str(kept).encode())
