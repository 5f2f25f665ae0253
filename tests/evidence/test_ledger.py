"""The names in claims.yaml lead to the code."""

import pytest

from icl.core import folders, plain_yaml


@pytest.mark.parametrize("key", folders.papers())
def test_the_observable_of_every_bound_is_found_in_the_code_as_it_is_written(key: str) -> None:
    folder = folders.PAPERS / key
    sources = [*folder.glob("*.py"), *(folders.PACKAGE / "evidence").glob("*.py")]
    code = "\n".join(path.read_text("utf-8") for path in sources)
    claims = plain_yaml.load((folder / "claims.yaml").read_text("utf-8"))["claims"]
    parts = [part for claim in claims for part in (*claim["bounds"], *claim.get("conditions", ()))]
    assert [part["observable"] for part in parts if part["observable"] not in code] == []
