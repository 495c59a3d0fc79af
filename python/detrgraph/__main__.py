"""`python -m detrgraph`, and the command `detrgraph` that the wheel installs: the program."""
from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    bundled = Path(__file__).resolve().parent / "bundle" / "bin" / "detrgraph"
    program = str(bundled) if bundled.exists() else shutil.which("detrgraph")
    if program is None:
        sys.exit("detrgraph: the program is neither in this package nor on the PATH")
    os.execv(program, ["detrgraph", *sys.argv[1:]])


if __name__ == "__main__":
    main()
