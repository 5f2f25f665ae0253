"""Build the documentation as an offline site, with a link to the report if there is one."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

STAGE = Path(".cache/site")
COPIED = ("README.md", "docs", "gallery", "profiles/README.md", "references.bib", "CITATION.cff")


def stage(root: Path, target: Path, report: Path) -> None:
    """Copy the pages and their pictures to `target`, at their paths in the repository."""
    shutil.rmtree(target, ignore_errors=True)
    for name in COPIED:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, copy)
        else:
            shutil.copyfile(root / name, copy)
    page = target / "docs/report.md"
    if report.is_file():
        shutil.copyfile(report, target / "report.html")
        line = "[Open the report](../report.html)"
    else:
        line = "This site was built without a report; `make report docs` adds it."
    page.write_text(f"{page.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")


def navigation(text: str, target: Path) -> str:
    """The text of mkdocs.yml with one entry per page of the folder docs/gallery."""
    config = yaml.safe_load(text)
    pages = sorted(path.relative_to(target).as_posix() for path in (target / "docs/gallery").glob("*.md"))
    for entry in config["nav"]:
        if "Gallery" in entry:
            entry["Gallery"] = sorted(pages, key=lambda name: not name.endswith("README.md"))
    return yaml.safe_dump(config | {"docs_dir": str(target.resolve())}, sort_keys=False)


def build(root: Path, target: Path, site: Path, report: Path) -> int:
    """Build the site from a copy of the pages; returns the exit code of mkdocs."""
    stage(root, target, report)
    config = target.with_suffix(".yml")
    config.write_text(navigation((root / "mkdocs.yml").read_text(encoding="utf-8"), target), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(config)]
    return subprocess.run([*command, "--site-dir", str(site.resolve())], check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("results/laptop/report/report.html"))
    sys.exit(build(Path(), STAGE, Path("site"), parser.parse_args().report))
