"""make wheel: packs the module with the program, its libraries, pipelines and licences, from the
folder that bundle.sh left. Only the C library is the machine's, and as new as the wheel's name says.
    python3 wheel.py SOURCE BUILD VERSION
"""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

MODULE = "detrgraph"
METADATA = """Metadata-Version: 2.1
Name: detrgraph
Version: {version}
Summary: Trains DETR-family object detectors from XML pipelines
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: arrays
Requires-Dist: numpy; extra == "arrays"
Description-Content-Type: text/markdown

{readme}"""


def needs(library):
    """Names of the libraries that one needs."""
    said = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s+NEEDED\s+(\S+)", said, re.M)


def load_order(folder, names):
    """Each library behind those it needs, the module's own left out."""
    order = []

    def add(name):
        for other in needs(folder / name):
            if other in names and other not in order:
                add(other)
        if name not in order:
            order.append(name)

    add("libdetrgraph.so.0")
    return order[:-1]


def bundled(root):
    """Pairs of a path in the bundle and its file. Wheels have no links: a library stands under the
    name by which others need it."""
    libraries = {}
    for path in sorted((root / "lib").iterdir()):
        if path.is_file() and ".so." in path.name:
            said = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True)
            soname = re.search(r"^\s+SONAME\s+(\S+)", said.stdout, re.M)
            libraries[soname[1] if soname else path.name] = path
    for name, path in libraries.items():
        yield f"lib/{name}", path
    for folder in ("bin", "libexec", "lib/detrgraph", "lib/graphviz", "share", "licences"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                yield str(path.relative_to(root)), path


class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.record = []

    def add(self, name, data, executable=False):
        info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, info):
        self.zip.writestr(zipfile.ZipInfo(f"{info}/RECORD", (2020, 1, 1, 0, 0, 0)),
                          "\n".join([*self.record, f"{info}/RECORD,,", ""]))
        self.zip.close()


def main(source, build, version):
    machine = platform.machine()
    root = Path(build) / f"{MODULE}-{version}-{machine}"
    libc = platform.libc_ver()[1].replace(".", "_")
    tag = f"py3-none-manylinux_{libc}_{machine}"
    path = Path(build) / f"{MODULE}-{version}-{tag}.whl"
    info = f"{MODULE}-{version}.dist-info"
    wheel = Wheel(path)
    files = dict(bundled(root))
    libraries = {Path(name).name for name in files if re.match(r"lib/[^/]*$", name)}
    for file in sorted((Path(source) / "python" / MODULE).iterdir()):
        if file.suffix in (".py", ".typed"):
            wheel.add(f"{MODULE}/{file.name}", file.read_bytes())
    for name, file in files.items():
        wheel.add(f"{MODULE}/bundle/{name}", file.read_bytes(), os.access(file, os.X_OK))
    order = load_order(root / "lib", libraries)
    wheel.add(f"{MODULE}/bundle/lib/order", ("\n".join(order) + "\n").encode())
    readme = (Path(source) / "docs" / "python.md").read_text()
    wheel.add(f"{info}/METADATA", METADATA.format(version=version, readme=readme).encode())
    wheel.add(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: detrgraph\nRoot-Is-Purelib: false\n"
              f"Tag: {tag}\n".encode())
    wheel.add(f"{info}/entry_points.txt",
              f"[console_scripts]\ndetrgraph = {MODULE}.__main__:main\n".encode())
    wheel.close(info)
    print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, {len(files)} files, "
          f"{len(libraries)} libraries")
    print(f"try: python3 -m venv env && env/bin/pip install {path.name} && env/bin/detrgraph doctor")


if __name__ == "__main__":
    main(*sys.argv[1:])
