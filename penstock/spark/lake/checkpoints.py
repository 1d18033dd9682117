"""Where the streaming queries of a lake keep their checkpoints: in the lake, when it is a folder.

Spark writes checkpoints itself, and cannot write to an object store without a jar. The checkpoints of such a lake are
in a folder elsewhere, and may get lost. A query without its checkpoint would write all events again, so the lake
records that there was one.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as arrow_fs

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.storage import below, filesystem, folder, is_folder, store_errors

NAME = "_checkpoints"


def checkpoints_of(lake: str, given: str | None) -> str:
    """Folder for the checkpoints of one lake. Two lakes never share it: the second would skip what the first has."""
    if is_folder(lake):
        if given is not None:
            raise LakeError(f"a lake in a folder keeps its checkpoints in {NAME}: omit --checkpoints")
        return below(lake, NAME)
    if given is None:
        raise LakeError(f"Spark cannot write checkpoints to {lake}: give a folder with --checkpoints")
    root = given if "://" in given else os.path.abspath(given)
    return below(root, quote(folder(lake), safe=""))


def remember_checkpoints(lake: str, pipeline: str, root: str) -> None:
    """Raises `LakeError` when the lake was written with checkpoints that are not in this folder."""
    if is_folder(lake) or not is_folder(root):
        return
    kept, mark = Path(folder(root)) / pipeline, f"{NAME}/{pipeline}"
    with store_errors(lake):
        files = filesystem(lake, {})
        is_marked = files.get_file_info(mark).type == arrow_fs.FileType.File
        if is_marked and not kept.exists():
            before = files.open_input_file(mark).read().decode()
            raise LakeError(
                f"{lake} was written with checkpoints in {before}, and there are none in {kept}: restore them, or"
                " start with a new lake"
            )
        kept.mkdir(parents=True, exist_ok=True)
        if not is_marked:
            # Buffered: deltalake does not accept Python's bytes directly.
            with pa.BufferedOutputStream(files.open_output_stream(mark), 4096) as stream:
                stream.write(str(kept).encode())
