"""Search constants that the papers do not state: see studies/README.md."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import typer

from icl.core.files import write_text
from icl.evidence import history as claims
from icl.evidence.sensitivity import DRAWS, FILE
from icl.pipeline.config import FIRST_SEED
from studies import bands, drawn, history, search, sensitivity, settings
from studies.search import Row
from studies.space import record, spaces

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)


@app.command("search")
def search_model(model: str, scale: str = "laptop", trials: int = -1) -> None:
    """Run the trials of a model, in results/<scale>/studies/<model>.csv; an interrupted search
    continues.
    """
    space = spaces()[model]
    if trials >= 0:
        space = space.model_copy(update={"trials": trials})
    path = Path(f"results/{scale}/studies/{model}.csv")
    for rows in _stored(path, partial(search.run, space, scale)):
        last = rows[-1]
        print(
            f"{len(rows)} trials, {last['stage']} {last['axis']}: {last['joint']:.4f}", flush=True
        )


@app.command("settings")
def draw_settings(model: str, scale: str = "laptop") -> None:
    """Train a model with all unpublished constants drawn at random, in
    results/<scale>/settings/<model>.csv; interrupted draws continue.
    """
    path = Path(f"results/{scale}/settings/{model}.csv")
    for rows in _stored(path, partial(settings.run, spaces()[model], scale)):
        print(f"{len(rows)} draws", flush=True)


def _stored(path: Path, run: Callable[[list[Row]], Iterator[list[Row]]]) -> Iterator[list[Row]]:
    """Continue a run after the rows in a file, and write all rows there after every new one."""
    for rows in run(record(path).to_dict("records") if path.exists() else []):
        write_text(path, pd.DataFrame(rows).to_csv(index=False))
        yield rows


@app.command("drawn")
def drawn_run(
    model: str, scale: str = "laptop", first_seed: int = FIRST_SEED, seeds: int = 0
) -> None:
    """Print how far each run of a model of Li et al. is from the published figures; the nearest
    is drawn. With a number of seeds, train these instead, and print quantiles, too.
    """
    if not seeds:
        print(drawn.report(model, scale))
        return
    found = []
    for part in drawn.other_seeds(model, scale, range(first_seed, first_seed + seeds)):
        found.append(part)
        print(part.round(3).to_csv(header=len(found) == 1), end="", flush=True)
    print(pd.concat(found).quantile([0, 0.1, 0.5, 0.9, 1]).round(3).T.to_string())


@app.command("bands")
def band_widths(scale: str = "laptop", seed: int = -1) -> None:
    """Print the widths of the bands of Li et al. over the published ones, of the drawn run or
    another seed.
    """
    print(bands.report(scale, None if seed < 0 else seed))


@app.command("sensitivity")
def write_sensitivity() -> None:
    """Write src/icl/evidence/sensitivity.json from studies/spaces/, and settings.json from
    studies/settings/.
    """
    write_text(FILE, sensitivity.as_json())
    write_text(DRAWS, settings.as_json(settings.recorded()))


@app.command("history")
def write_history() -> None:
    """Write src/icl/evidence/history.json from the commits of this repository."""
    claims.write(history.events())


if __name__ == "__main__":
    app()
