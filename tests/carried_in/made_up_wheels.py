"""Wheels of a few hundred bytes, with the metadata that a test gives them."""

import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, *needs: str, python: str = "", files: tuple[str, ...] = ()) -> Path:
    """Write the wheel called `name` without its ending, such as `one-1.0-py3-none-any`; installable where tags fit."""
    distribution, version, *_ = name.split("-")
    info = f"{distribution}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {one}" for one in needs]
    metadata += [f"Requires-Python: {python}"] if python else []
    contents = {f"{info}/METADATA": "\n".join(metadata) + "\n", **dict.fromkeys(files, "")}
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {'-'.join(name.split('-')[2:])}\n"
    contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    path = folder / f"{name}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in contents.items():
            archive.writestr(place, text)
    return path
