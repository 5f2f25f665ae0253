"""What is installed, and what is wrong with it: ``python -m icl.doctor``.

Prints Python, the build of torch, its threads, the GPU, and every library against the range that the package declares.
Exit status 1 if something is missing or outside its range; a warning alone, such as a CUDA build on a machine without
a GPU, leaves it at 0.
"""

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement


@dataclass(frozen=True)
class Library:
    """A declared library beside what is installed; ``installed`` is None where it is missing."""

    name: str
    wanted: str
    installed: str | None

    @property
    def fits(self) -> bool:
        """Whether it is installed and within its range."""
        if self.installed is None:
            return False
        return Requirement(f"{self.name}{self.wanted}").specifier.contains(self.installed, prereleases=True)


def libraries(requirements: Iterable[str]) -> list[Library]:
    """Each requirement that applies here, extras left out, beside the installed version."""
    found = []
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            installed = None
        found.append(Library(requirement.name, str(requirement.specifier), installed))
    return found


def torch_warnings(cuda: str | None, gpus: int) -> list[str]:
    """What to say about a torch built for CUDA version ``cuda`` (None: CPU build) that sees ``gpus`` GPUs."""
    if cuda is not None and gpus == 0:
        return [
            f"torch is a CUDA build ({cuda}), but no GPU is visible: everything works, on the CPU; "
            "the CPU build is several GB smaller (make clean-env env)"
        ]
    return []


def main() -> int:
    """Print what is installed; 1 if something is wrong with it."""
    print(f"Python   {platform.python_version()} ({platform.system()} {platform.machine()})")

    warnings = []
    try:
        import torch
    except (ImportError, OSError) as error:  # a CUDA build without its libraries raises OSError
        print(f"torch    cannot be imported: {error}")
        broken = True
    else:
        broken = False
        cuda, gpus = torch.version.cuda, torch.cuda.device_count()
        print(f"torch    {torch.__version__} ({'CPU build' if cuda is None else f'CUDA {cuda}'})")
        print(f"threads  {torch.get_num_threads()}")
        print(f"GPU      {', '.join(torch.cuda.get_device_name(i) for i in range(gpus)) or 'none visible'}")
        warnings = torch_warnings(cuda, gpus)

    print()
    try:
        declared = libraries(metadata.requires("icl") or [])
    except metadata.PackageNotFoundError:
        print("icl itself is not installed; `make env` does it")
        return 1
    width = max(len(library.name) for library in declared)
    for library in declared:
        note = "" if library.fits else "   <- missing" if library.installed is None else "   <- outside its range"
        print(f"{library.name:{width}}  {library.installed or '-':14}  {library.wanted}{note}")

    print()
    for warning in warnings:
        print(f"warning: {warning}")
    wrong = [library.name for library in declared if not library.fits]
    if wrong:
        print(f"wrong: {', '.join(wrong)}; `make env` installs what the lock says")
    if not (wrong or broken):
        print("all is well")
    return int(bool(wrong) or broken)


if __name__ == "__main__":
    raise SystemExit(main())
